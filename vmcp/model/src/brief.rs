//! Short forms of a description (GMT-25).

/// The longest first sentence that is used as it is, in characters.
const MAX_CHARACTERS: usize = 100;

/// Words whose full stop does not end a sentence.
const ABBREVIATIONS: [&str; 9] = ["e.g", "i.e", "etc", "vs", "cf", "approx", "incl", "resp", "viz"];

/// The first sentence if it has at most 100 characters, else the first 100 characters and `...`.
pub fn brief(description: &str) -> String {
    let sentence = first_sentence(description);
    if sentence.is_empty() {
        return "No description available".to_owned();
    }
    match sentence.char_indices().nth(MAX_CHARACTERS) {
        None => sentence.to_owned(),
        Some((end, _)) => format!("{}...", sentence.get(..end).unwrap_or_default()),
    }
}

/// The first sentence, with its `.`, `!` or `?`. It ends where such a mark is followed by white space or by nothing, and
/// at the latest where the paragraph ends; `e.g.` and its like do not end it.
pub fn first_sentence(text: &str) -> &str {
    let text = text.trim_start();
    let paragraph = text.split("\n\n").next().unwrap_or_default().trim_end();
    let mut rest = paragraph.char_indices().peekable();
    while let Some((at, mark)) = rest.next() {
        let ends =
            matches!(mark, '.' | '!' | '?') && rest.peek().is_none_or(|(_, next)| next.is_whitespace());
        let before = paragraph.get(..at).unwrap_or_default();
        if ends && !(mark == '.' && ends_with_abbreviation(before)) {
            return paragraph.get(..=at).unwrap_or(paragraph);
        }
    }
    paragraph
}

fn ends_with_abbreviation(text: &str) -> bool {
    let word = text.rsplit(|c: char| c.is_whitespace() || "([,;\"'".contains(c)).next().unwrap_or_default();
    ABBREVIATIONS.iter().any(|abbreviation| word.eq_ignore_ascii_case(abbreviation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn briefs() {
        assert_eq!(brief("Fetch documentation for a library. More…"), "Fetch documentation for a library.");
        let long = brief(&"é".repeat(300));
        assert_eq!((long.chars().count(), long.ends_with("é...")), (103, true));
        assert_eq!(brief(&"x".repeat(100)).len(), 100);
        assert_eq!(brief(" \n"), "No description available");
    }

    #[test]
    fn sentences() {
        assert_eq!(
            first_sentence("Reads files (e.g. notes.txt, v1.2). Fast!"),
            "Reads files (e.g. notes.txt, v1.2)."
        );
        assert_eq!(first_sentence("Really? Yes."), "Really?");
        assert_eq!(first_sentence("Go! Now."), "Go!");
        assert_eq!(first_sentence("One line\nstill it\n\nArgs: x."), "One line\nstill it");
        assert_eq!(first_sentence("no end"), "no end");
        assert_eq!(first_sentence("See README.md for more"), "See README.md for more");
        assert_eq!(first_sentence("Lists pages, posts, etc."), "Lists pages, posts, etc.");
    }

    proptest! {
        #[test]
        fn a_prefix_and_bounded(text in any::<String>()) {
            prop_assert!(text.trim_start().starts_with(first_sentence(&text)));
            prop_assert!(brief(&text).chars().count() <= MAX_CHARACTERS + 3);
        }
    }
}
