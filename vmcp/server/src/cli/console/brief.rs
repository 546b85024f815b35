//! A tool's description shortened to one cell of a table.

use vmcp_search::first_sentence;

/// The longest first sentence that is shown whole, in characters; a longer one is cut there and ends in
/// `...`.
const MAX_CHARACTERS: usize = 100;

/// Returns the first sentence of a description, at most [`MAX_CHARACTERS`] characters of it.
pub(in crate::cli) fn brief(description: &str) -> String {
    let sentence = first_sentence(description);
    if sentence.is_empty() {
        return "No description available".to_owned();
    }
    match sentence.char_indices().nth(MAX_CHARACTERS) {
        None => sentence,
        Some((end, _)) => format!("{}...", sentence.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_description_is_cut_to_its_first_sentence_and_to_a_hundred_characters() {
        assert_eq!(brief("Fetch documentation for a library. More…"), "Fetch documentation for a library.");
        let long = brief(&"é".repeat(300));
        assert_eq!((long.chars().count(), long.ends_with("é...")), (103, true));
        assert_eq!(brief(&"x".repeat(100)).len(), 100);
        assert_eq!(brief(" \n"), "No description available");
    }

    proptest! {
        #[test]
        fn any_text_gives_one_bounded_line(text in any::<String>()) {
            let brief = brief(&text);
            prop_assert!(brief.chars().count() <= MAX_CHARACTERS + 3);
            prop_assert!(!brief.contains('\n'));
        }
    }
}
