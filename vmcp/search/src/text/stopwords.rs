//! Stop words: English function words, and the words that requests to a search tool are padded with.

/// Sorted for binary search. Words that name things tools act on (`data`, `list`, `file`, `name`) are absent:
/// BM25F's inverse document frequency already says how little they tell.
const STOP_WORDS: &[&str] = &[
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "because",
    "been", "before", "being", "between", "both", "but", "by", "can", "could", "d", "did", "do", "does",
    "doing", "each", "etc", "for", "from", "given", "had", "has", "have", "having", "he", "her", "here",
    "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "let", "ll", "m", "may", "me",
    "might", "more", "most", "must", "my", "need", "needs", "no", "nor", "not", "of", "on", "only", "or",
    "other", "our", "out", "over", "please", "re", "s", "she", "should", "so", "some", "such", "t", "than",
    "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "through", "to",
    "too", "under", "up", "us", "use", "used", "uses", "using", "ve", "very", "via", "want", "was", "we",
    "were", "what", "when", "where", "whether", "which", "while", "who", "whose", "why", "will", "with",
    "within", "would", "you", "your",
];

/// True if a lower-case word is a stop word.
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_lower_case() {
        assert!(STOP_WORDS.is_sorted());
        assert!(STOP_WORDS.iter().all(|word| is_stop_word(word) && *word == word.to_lowercase()));
        assert!(!is_stop_word("list"));
    }
}
