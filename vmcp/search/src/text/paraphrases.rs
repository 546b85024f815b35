//! Paraphrases: wishes of people, and the words of definitions for them.
//!
//! The small model knows what a definition is about, and hardly that "is the back door shut" asks for the
//! status of a door. It does know that two wishes are alike. So a table has wishes of many kinds with the
//! words of definitions for them, and a short query takes the words of the wishes nearest to it.
//!
//! ```text
//! share(w)   = softmax of cosine(query, w) / .05            of the twelve nearest wishes from .4 on
//! trust      = (cosine(query, nearest wish) − cosine(query, nearest tool)) / .3       between 0 and 1,
//!              times the root of the share of tools that have a vector
//! vector    += .4 · trust · Σ share(w) · e("tool to " + words(w))
//! weight(t)  = .7 · trust · Σ share(w)                      over the wishes whose words have the term t
//! ```
//!
//! A query in the words of definitions is near to a tool and takes nothing. The vectors are those of the
//! default model. Figures: `docs/contributor/search-quality.md`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

use super::analysis::terms;
use crate::vectors::{LANES, normalized};

/// Width of the default model's vectors.
const DIMENSIONS: usize = 384;
/// Wishes that a query takes words of. One finds less, twenty find as much.
const NEAREST: usize = 12;
/// Least cosine of a query and a wish that is like it.
const MIN_COSINE: f32 = 0.4;
/// Temperature of the shares; .03 and .08 find less.
const TEMPERATURE: f32 = 0.05;
/// Margin by which a wish is nearer than any tool when it has full trust.
const FULL_MARGIN: f32 = 0.3;
/// Weight of the words' vectors against the query's own.
const VECTOR_WEIGHT: f32 = 0.4;
/// Weight of a word that all wishes share, against the text's own terms.
const WORD_WEIGHT: f32 = 0.7;

static PARAPHRASES: LazyLock<Paraphrases> = LazyLock::new(Paraphrases::load);

/// Words and vector that a query takes from the wishes nearest to it.
#[derive(Debug)]
pub(crate) struct Paraphrase {
    vector: Vec<f32>,
    /// Terms that the query does not have, in order, each with its weight.
    pub(crate) terms: Vec<(String, f32)>,
}

impl Paraphrase {
    /// Adds its vector to that of the query.
    pub(crate) fn added_to(&self, query: &[f32]) -> Vec<f32> {
        query.iter().zip(&self.vector).map(|(query, own)| query + own).collect()
    }
}

/// Returns the paraphrase of a query, from its vector, its cosines with the tools, and its own terms. `None`
/// if no wish is like it, if a tool is nearer, and for a vector of another width.
pub(crate) fn paraphrase(query: &[f32], tools: &[Option<f32>], own: &HashSet<String>) -> Option<Paraphrase> {
    PARAPHRASES.of(query, tools, own)
}

/// Returns the texts whose vectors the table has, in their order: all wishes, then the words for them as
/// "tool to …".
pub fn paraphrase_texts() -> Vec<String> {
    let Table { wishes, meanings } = Table::parse(WISHES);
    let wishes = wishes.into_iter().map(|(wish, _)| wish.to_owned());
    wishes.chain(meanings.into_iter().map(|words| format!("tool to {words}"))).collect()
}

/// Returns the vector of the table for each of the [texts](paraphrase_texts), as whole numbers up to 127.
pub fn paraphrase_vectors() -> Vec<Vec<i8>> {
    rows().iter().map(|row| row.iter().map(|byte| byte.cast_signed()).collect()).collect()
}

/// The vectors as the program has them, whose pages are read when they are needed: a table of floats would
/// take six megabytes of memory.
fn rows() -> &'static [[u8; DIMENSIONS]] {
    VECTORS.as_chunks().0
}

/// Returns the dot product of a vector and a row, with partial sums as in [`crate::vectors`].
fn dot(vector: &[f32], row: &[u8; DIMENSIONS]) -> f32 {
    let (vector, _) = vector.as_chunks::<LANES>();
    let (row, _) = row.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (vector, row) in vector.iter().zip(row) {
        for ((sum, value), byte) in sums.iter_mut().zip(vector).zip(row) {
            *sum += value * f32::from(byte.cast_signed());
        }
    }
    sums.iter().sum()
}

/// Rows of wishes and the words for them.
pub(super) const WISHES: &str = include_str!("paraphrases/wishes.txt");
const VECTORS: &[u8] = include_bytes!("paraphrases/vectors.i8");

/// The texts of the table.
struct Table {
    /// Each wish with the number of its meaning.
    wishes: Vec<(&'static str, usize)>,
    /// Words of definitions, each row of them once.
    meanings: Vec<&'static str>,
}

impl Table {
    /// Reads lines of the form `wish|wish = words`.
    fn parse(text: &'static str) -> Table {
        let mut table = Table { wishes: Vec::new(), meanings: Vec::new() };
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let rows = text.lines().filter(|line| !line.starts_with('#'));
        for (wishes, words) in rows.filter_map(|line| line.split_once(" = ")) {
            let number = *numbers.entry(words).or_insert_with(|| {
                table.meanings.push(words);
                table.meanings.len() - 1
            });
            table.wishes.extend(wishes.split('|').map(|wish| (wish, number)));
        }
        table
    }
}

/// The table with the length of each of its vectors: those of the wishes, then those of the meanings.
struct Paraphrases {
    table: Table,
    lengths: Vec<f32>,
}

impl Paraphrases {
    fn load() -> Paraphrases {
        let square = |byte: &u8| f32::from(byte.cast_signed()).powi(2);
        let length = |row: &[u8; DIMENSIONS]| row.iter().map(square).sum::<f32>().sqrt();
        Paraphrases { table: Table::parse(WISHES), lengths: rows().iter().map(length).collect() }
    }

    fn of(&self, query: &[f32], tools: &[Option<f32>], own: &HashSet<String>) -> Option<Paraphrase> {
        let near = self.nearest(query)?;
        let (_, best) = *near.first()?;
        let nearest_tool = tools.iter().flatten().copied().reduce(f32::max)?;
        // A tool without a vector may be the nearest one.
        let share = tools.iter().flatten().count() as f32 / tools.len() as f32;
        let trust = ((best - nearest_tool) / FULL_MARGIN).min(1.0) * share.sqrt();
        if trust <= 0.0 {
            return None;
        }
        let strength = |cosine: f32| ((cosine - best) / TEMPERATURE).exp();
        let total: f32 = near.iter().map(|(_, cosine)| strength(*cosine)).sum();
        let mut vector = vec![0.0; DIMENSIONS];
        // In the order of the terms, so that equal queries add the same numbers in the same order.
        let mut weights: BTreeMap<String, f32> = BTreeMap::new();
        for (wish, cosine) in near {
            let weight = trust * strength(cosine) / total;
            let Some((words, row)) = self.meaning(wish) else { continue };
            for (sum, value) in vector.iter_mut().zip(row) {
                *sum += VECTOR_WEIGHT * weight * value;
            }
            for term in terms(words).filter(|term| !own.contains(term)) {
                *weights.entry(term).or_default() += WORD_WEIGHT * weight;
            }
        }
        Some(Paraphrase { vector, terms: weights.into_iter().collect() })
    }

    /// Returns the wishes nearest to a query, with their cosines, best first.
    fn nearest(&self, query: &[f32]) -> Option<Vec<(usize, f32)>> {
        let query = normalized(query, DIMENSIONS)?;
        let wishes = rows().iter().zip(&self.lengths).take(self.table.wishes.len());
        let cosines = wishes.map(|(row, length)| dot(&query, row) / length).enumerate();
        let mut near: Vec<(usize, f32)> = cosines.filter(|(_, cosine)| *cosine >= MIN_COSINE).collect();
        near.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        near.truncate(NEAREST);
        Some(near)
    }

    /// Returns the words for a wish, and their vector.
    fn meaning(&self, wish: usize) -> Option<(&'static str, impl Iterator<Item = f32>)> {
        let (_, meaning) = *self.table.wishes.get(wish)?;
        let words = *self.table.meanings.get(meaning)?;
        Some((words, self.unit_vector(self.table.wishes.len() + meaning)?))
    }

    /// Returns the values of a vector at unit length.
    fn unit_vector(&self, number: usize) -> Option<impl Iterator<Item = f32>> {
        let (row, length) = (rows().get(number)?, *self.lengths.get(number)?);
        Some(row.iter().map(move |byte| f32::from(byte.cast_signed()) / length))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The vector of a wish in the table.
    pub(crate) fn vector_of(wish: &str) -> Vec<f32> {
        let table = &PARAPHRASES.table;
        let at = table.wishes.iter().position(|(known, _)| *known == wish).expect("the wish is in the table");
        PARAPHRASES.unit_vector(at).expect("it has a vector").collect()
    }

    fn weight(paraphrase: &Paraphrase, term: &str) -> f32 {
        paraphrase.terms.iter().find(|(known, _)| known == term).map_or(0.0, |(_, weight)| *weight)
    }

    #[test]
    fn each_wish_and_each_meaning_has_a_vector() {
        let Table { wishes, meanings } = &PARAPHRASES.table;
        assert!(wishes.len() > 1_000 && meanings.len() > 500);
        assert_eq!(VECTORS.len(), (wishes.len() + meanings.len()) * DIMENSIONS);
        assert_eq!(PARAPHRASES.lengths.len(), wishes.len() + meanings.len());
        assert!(PARAPHRASES.lengths.iter().all(|length| *length > 0.0));
        assert_eq!(paraphrase_texts().len(), paraphrase_vectors().len());
    }

    #[test]
    fn the_wish_itself_is_nearest_and_has_a_cosine_of_one() {
        for wish in ["lock up for the night", "who wrote to me"] {
            let near = PARAPHRASES.nearest(&vector_of(wish)).unwrap();
            let (first, cosine) = near.first().copied().unwrap();
            assert_eq!(PARAPHRASES.table.wishes.get(first).map(|(known, _)| *known), Some(wish));
            assert!((cosine - 1.0).abs() < 1e-4, "{cosine}");
            assert!(near.len() <= NEAREST && near.iter().all(|(_, cosine)| *cosine >= MIN_COSINE));
            assert!(near.is_sorted_by(|(_, one), (_, other)| one >= other));
        }
    }

    #[test]
    fn every_row_is_read_and_no_wish_is_there_twice() {
        let rows = WISHES.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(
            WISHES.lines().filter(|line| !line.starts_with('#') && line.contains(" = ")).count(),
            rows
        );
        let mut seen = HashSet::new();
        for (wish, _) in &PARAPHRASES.table.wishes {
            assert!(seen.insert(wish), "{wish} is there twice");
            assert!(!wish.is_empty() && wish.trim() == *wish && wish.is_ascii(), "{wish:?}");
            assert_eq!(wish.to_lowercase(), *wish);
        }
        for words in &PARAPHRASES.table.meanings {
            assert_eq!(words.to_lowercase(), *words);
        }
    }

    #[test]
    fn a_wish_gives_the_words_of_definitions() {
        let wish = vector_of("lock up for the night");
        let found = paraphrase(&wish, &[Some(0.2)], &HashSet::new()).unwrap();
        assert!(weight(&found, "lock") > 0.3 && weight(&found, "door") > 0.3, "{:?}", found.terms);
        assert!(found.terms.iter().all(|(_, weight)| *weight <= WORD_WEIGHT + 1e-5));
        assert!(found.added_to(&[0.0; DIMENSIONS]).iter().any(|value| *value != 0.0));
        // Its own terms stay as they are.
        let own = HashSet::from(["lock".to_owned()]);
        let found = paraphrase(&wish, &[Some(0.2)], &own).unwrap();
        assert!(weight(&found, "lock") == 0.0 && weight(&found, "door") > 0.0);
    }

    #[test]
    fn a_wish_says_less_the_nearer_a_tool_is_and_the_fewer_tools_have_vectors() {
        let wish = vector_of("lock up for the night");
        let door = |tools: &[Option<f32>]| {
            let found = paraphrase(&wish, tools, &HashSet::new());
            found.map_or(0.0, |found| weight(&found, "door"))
        };
        let full = door(&[Some(0.2), Some(0.1)]);
        assert!(full > 0.3);
        assert!((door(&[Some(0.1), Some(0.85)]) / full - 0.5).abs() < 1e-3, "half of the margin");
        assert!((door(&[Some(0.2), None, None, None]) / full - 0.5).abs() < 1e-3, "a quarter of the tools");
        assert!(door(&[Some(1.0)]) < 1e-5, "a tool as near as the wish");
        assert!(door(&[None, None]) == 0.0 && door(&[]) == 0.0);
    }

    #[test]
    fn a_vector_unlike_all_wishes_or_of_another_model_gives_nothing() {
        let mut unlike = [0.0; DIMENSIONS];
        unlike[7] = 1.0;
        assert!(paraphrase(&unlike, &[Some(0.0)], &HashSet::new()).is_none());
        assert!(paraphrase(&[1.0, 0.0, 0.0], &[Some(0.0)], &HashSet::new()).is_none());
        assert!(paraphrase(&[0.0; DIMENSIONS], &[Some(0.0)], &HashSet::new()).is_none());
    }
}
