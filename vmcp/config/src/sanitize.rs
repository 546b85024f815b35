//! Sanitizer for text from backends, which is shown, embedded and put before a model: invisible characters
//! could hide instructions from a person.

use std::fmt::Write as _;

/// Most bytes of a text that [`text`] and [`paragraphs`] return, 8 KiB; the rest is cut.
pub const MAX_BYTES: usize = 8 * 1024;

/// Break between two paragraphs.
const PARAGRAPH: &str = "\n\n";

/// Drops control, zero-width, direction-changing and other invisible characters, turns every run of white
/// space into one space, trims, and cuts at [`MAX_BYTES`] on a character's boundary.
///
/// # Examples
///
/// ```
/// assert_eq!(vmcp_config::sanitize::text("  ignore\u{202e} me\u{200b}\n\tnow "), "ignore me now");
/// ```
pub fn text(input: &str) -> String {
    clean(input, " ")
}

/// Cleans like [`text`], but keeps a run of white space that holds an empty line as a paragraph's end: the
/// first sentence of a description ends there, and the rest is mostly about parameters.
pub fn paragraphs(input: &str) -> String {
    clean(input, PARAGRAPH)
}

/// Drops invisible characters and keeps everything else, white space too.
///
/// # Examples
///
/// ```
/// assert_eq!(vmcp_config::sanitize::visible("one\n  two\u{200b}\u{e0041}"), "one\n  two");
/// ```
pub fn visible(input: &str) -> String {
    input.chars().filter(|c| c.is_whitespace() || !is_invisible(*c)).collect()
}

/// Cleans `input`; `break_between` replaces a run of white space with an empty line.
fn clean(input: &str, break_between: &str) -> String {
    let mut out = String::with_capacity(input.len().min(MAX_BYTES));
    let mut gap = "";
    let mut line_feeds = 0;
    for c in input.chars() {
        if c.is_whitespace() {
            line_feeds += usize::from(c == '\n');
            gap = match line_feeds {
                _ if out.is_empty() => "",
                0 | 1 => " ",
                _ => break_between,
            };
        } else if !is_invisible(c) {
            if out.len() + gap.len() + c.len_utf8() > MAX_BYTES {
                break;
            }
            // Written only before a visible character, so that the text never ends in white space.
            out.push_str(std::mem::take(&mut gap));
            line_feeds = 0;
            out.push(c);
        }
    }
    out
}

/// Returns a text as one word of a POSIX shell's command line, in quotes unless all its characters are plain:
/// for commands that a person may paste, with names that a server chose. Invisible characters are dropped.
///
/// # Examples
///
/// ```
/// use vmcp_config::sanitize::shell_word;
///
/// assert_eq!(shell_word("notes:write"), "notes:write");
/// assert_eq!(shell_word("x; rm -rf ~"), "'x; rm -rf ~'");
/// assert_eq!(shell_word("it's $(id)\n"), r"'it'\''s $(id)'");
/// ```
#[must_use]
pub fn shell_word(input: &str) -> String {
    let word: String = input.chars().filter(|c| !is_invisible(*c) && !is_unseen(*c)).collect();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word;
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns true for characters beyond ASCII that a terminal obeys or hides: direction marks, separators of
/// lines and paragraphs, C1 controls, zero-width characters.
#[must_use]
pub fn is_unseen(c: char) -> bool {
    !c.is_ascii() && (is_invisible(c) || matches!(c, '\u{2028}' | '\u{2029}'))
}

/// Writes unseen characters as escapes of JSON (`\u202e`). JSON has characters beyond ASCII in strings only,
/// so a document keeps its meaning.
#[must_use]
pub fn escape_unseen(text: String) -> String {
    if text.is_ascii() || !text.contains(is_unseen) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    for character in text.chars() {
        if is_unseen(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Returns true for characters that a person does not see but a model or a terminal may obey.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}'                    // soft hyphen
            | '\u{34f}'                 // combining grapheme joiner
            | '\u{61c}'                 // Arabic letter mark
            | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' // Hangul fillers
            | '\u{17b4}' | '\u{17b5}'   // Khmer inherent vowels
            | '\u{180b}'..='\u{180f}'   // Mongolian separators
            | '\u{200b}'..='\u{200f}'   // zero-width characters, direction marks
            | '\u{202a}'..='\u{202e}'   // bidirectional embeddings and overrides
            | '\u{2060}'..='\u{206f}'   // word joiner, invisible operators, bidirectional isolates
            | '\u{2800}'                // braille pattern without dots
            | '\u{fe00}'..='\u{fe0d}'   // variation selectors; emoji need the last two
            | '\u{feff}'                // byte order mark
            | '\u{fff0}'..='\u{fffb}'   // unassigned and ignored, interlinear annotations
            | '\u{1bca0}'..='\u{1bca3}' // shorthand format controls
            | '\u{1d173}'..='\u{1d17a}' // musical format controls
            | '\u{e0000}'..='\u{e0fff}' // tags and supplementary variation selectors
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn strips_and_collapses() {
        assert_eq!(text("  a\u{202e}b\u{200b}c\u{7}\t\r\n d\u{e0041} "), "abc d");
        assert_eq!(text("\u{feff} \u{200d}"), "");
        assert_eq!(text("Grüße, 日本 😀 ❤\u{fe0f}"), "Grüße, 日本 😀 ❤\u{fe0f}");
        assert_eq!(text("a\u{fe00}\u{fe0d}\u{2800}\u{fff0}\u{1bca0}\u{1d173}b\u{e0101}"), "ab");
    }

    #[test]
    fn paragraphs_stay_apart() {
        assert_eq!(paragraphs("\n\n One\nline.\r\n \r\nArgs:\n  x \n\n"), "One line.\n\nArgs: x");
        assert_eq!(text("One.\n\nTwo."), "One. Two.");
    }

    #[test]
    fn characters_that_deceive_a_reader_are_escaped_and_the_document_stays_the_same() {
        let text = "txt\u{202e}gpj \u{2028}\u{2029}\u{85}\u{9b}2J\u{200b}\u{feff}\u{e0041} ä 日本";
        let escaped = escape_unseen(serde_json::to_string(&[text]).unwrap());
        assert_eq!(serde_json::from_str::<[String; 1]>(&escaped).unwrap(), [text]);
        assert!(escaped.contains("\\u202e") && escaped.contains("\\u2028") && escaped.contains("ä 日本"));
        assert!(!escaped.chars().any(is_unseen), "{escaped}");
    }

    #[test]
    fn caps_on_a_boundary() {
        let long = text(&"日".repeat(100_000));
        assert_eq!(long.len(), MAX_BYTES - MAX_BYTES % 3);
        assert_eq!(text(&"a ".repeat(100_000)).len(), MAX_BYTES - 1, "no space at the end");
    }

    proptest! {
        #[test]
        fn clean_whatever_the_input(input in any::<String>()) {
            let clean = text(&input);
            prop_assert!(clean.len() <= MAX_BYTES && !clean.chars().any(is_invisible));
            prop_assert_eq!(text(&clean), clean);
            let whole = paragraphs(&input);
            prop_assert!(whole.len() <= MAX_BYTES);
            prop_assert_eq!(paragraphs(&whole), whole);
        }
    }
}
