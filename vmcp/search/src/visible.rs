//! The set of documents that one caller may see, as a bitmap.

/// A set of document numbers, as a bitmap of 64 to a word. The index ignores numbers that it does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Visible {
    words: Vec<u64>,
}

impl Visible {
    /// Adds a document.
    pub fn insert(&mut self, document: usize) {
        let (word, bit) = split(document);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        if let Some(word) = self.words.get_mut(word) {
            *word |= bit;
        }
    }

    /// True if a document is in the set.
    pub fn contains(&self, document: usize) -> bool {
        let (word, bit) = split(document);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Number of documents in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True if the set has no document.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }
}

impl FromIterator<usize> for Visible {
    fn from_iter<I: IntoIterator<Item = usize>>(documents: I) -> Visible {
        let mut visible = Visible::default();
        documents.into_iter().for_each(|document| visible.insert(document));
        visible
    }
}

fn split(document: usize) -> (usize, u64) {
    (document / 64, 1 << (document % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_inserted_and_nothing_else() {
        let visible: Visible = [0, 63, 64, 200].into_iter().collect();
        assert_eq!(visible.len(), 4);
        assert!(!visible.is_empty());
        let members: Vec<usize> = (0..1000).filter(|document| visible.contains(*document)).collect();
        assert_eq!(members, [0, 63, 64, 200]);
        assert!(Visible::default().is_empty());
    }
}
