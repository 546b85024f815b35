//! The first sentence of a description: the part that is embedded, and that a table shows.

/// Words whose full stop does not end a sentence. `etc.` is not among them: before a capital letter it does.
const ABBREVIATIONS: [&str; 8] = ["e.g", "i.e", "vs", "cf", "approx", "incl", "resp", "viz"];

/// Returns the first sentence of `text` on one line, its punctuation included.
///
/// A sentence ends at a blank line, at a full-width stop, or at `.`, `!` or `?` before white space that no
/// lower-case letter follows; the full stop of an abbreviation (`e.g.`, `vs.`, …) ends one only at the end of
/// the paragraph.
///
/// ```
/// use vmcp_search::first_sentence;
///
/// assert_eq!(first_sentence("Reads files (e.g. README.md,\nv1.2). Fast!"), "Reads files (e.g. README.md, v1.2).");
/// assert_eq!(first_sentence("Lists pages\n\nArgs: none."), "Lists pages");
/// ```
pub fn first_sentence(text: &str) -> String {
    let paragraph = text.trim().lines().take_while(|line| !line.trim().is_empty());
    let line = paragraph.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ");
    let mut rest = line.char_indices().peekable();
    while let Some((at, character)) = rest.next() {
        let end = at + character.len_utf8();
        let ends = match character {
            '。' | '！' | '？' => true,
            '.' | '!' | '?' => {
                let mut after = rest.clone().map(|(_, next)| next);
                let before_space = match after.next() {
                    None => true,
                    Some(next) => {
                        let before = line.get(..at).unwrap_or_default();
                        next.is_whitespace() && !(character == '.' && ends_with_abbreviation(before))
                    }
                };
                before_space && !after.next().is_some_and(char::is_lowercase)
            }
            _ => false,
        };
        if ends {
            return line.get(..end).unwrap_or(&line).to_owned();
        }
    }
    line
}

fn ends_with_abbreviation(text: &str) -> bool {
    let word = text.rsplit(|c: char| c.is_whitespace() || "([,;\"'".contains(c)).next().unwrap_or_default();
    ABBREVIATIONS.iter().any(|abbreviation| word.eq_ignore_ascii_case(abbreviation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences() {
        for (text, sentence) in [
            ("Reads files (e.g. notes.txt, v1.2). Fast!", "Reads files (e.g. notes.txt, v1.2)."),
            ("Opens a repository, e.g. GitHub's. Fast.", "Opens a repository, e.g. GitHub's."),
            ("Really? Yes.", "Really?"),
            ("Go! Now.", "Go!"),
            ("One line\nstill it\n\nArgs: x.", "One line still it"),
            ("no end", "no end"),
            ("See README.md for more", "See README.md for more"),
            ("Lists pages, posts, etc.", "Lists pages, posts, etc."),
            ("Lists pages, posts etc. Returns JSON.", "Lists pages, posts etc."),
            ("Compares one vs.", "Compares one vs."),
            ("読みます。次", "読みます。"),
            ("", ""),
        ] {
            assert_eq!(first_sentence(text), sentence, "{text}");
        }
    }

    #[test]
    fn a_sentence_survives_abbreviations_numbers_and_other_scripts() {
        assert_eq!(
            first_sentence("Finds e.g. files by v1.2 names! Also more."),
            "Finds e.g. files by v1.2 names!"
        );
        assert_eq!(first_sentence("根据ID获取网页。返回内容"), "根据ID获取网页。");
        assert_eq!(first_sentence("No stop here\n\nArgs: x. y"), "No stop here");
    }
}
