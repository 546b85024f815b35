//! The first sentence of a description: the part that is embedded, and that a table shows.

/// Words whose full stop does not end a sentence. `etc.` is not among them: before a capital letter it does.
const ABBREVIATIONS: [&str; 8] = ["e.g", "i.e", "vs", "cf", "approx", "incl", "resp", "viz"];

/// Labels of the part of a description that says what a tool does, in lower case.
const PURPOSES: [&str; 6] = ["purpose", "description", "summary", "overview", "what it does", "about"];
/// Labels of parts that describe parameters and results, in lower case.
const DETAILS: [&str; 8] =
    ["args", "arguments", "parameters", "params", "inputs", "returns", "example", "examples"];
/// Most words of a line that is a label of the lines below it.
const MAX_LABEL_WORDS: usize = 4;

/// Returns the first sentence of `text` on one line, its punctuation included.
///
/// Headings, labels, emoji and marks of lists before it are left out; of several labeled parts, the one about
/// the purpose counts. A sentence ends at a blank line, at a full-width stop, or at `.`, `!` or `?` before
/// white space that no lower-case letter follows; the full stop of an abbreviation (`e.g.`, `vs.`, …) ends
/// one only at the end of the paragraph.
///
/// ```
/// use vmcp_search::first_sentence;
///
/// assert_eq!(first_sentence("Reads files (e.g. README.md,\nv1.2). Fast!"), "Reads files (e.g. README.md, v1.2).");
/// assert_eq!(first_sentence("Lists pages\n\nArgs: none."), "Lists pages");
/// assert_eq!(first_sentence("# Search\n\n🎯 Purpose:\n  1. Finds pages. Fast."), "Finds pages.");
/// ```
pub fn first_sentence(text: &str) -> String {
    let paragraph = paragraph(text);
    let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
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

/// Returns the text from the first line that says something of the tool up to a blank line, or up to the next
/// item of a list that it is in; the whole first paragraph if all its lines are labels.
fn paragraph(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().collect();
    let label = |at: usize| lines.get(at).and_then(|line| label_of(line));
    let begins_with_label = label(0).is_some();
    let of_purpose = (0..lines.len()).find(|at| label(*at).is_some_and(|label| is_purpose(&label)));
    let start = of_purpose.filter(|_| begins_with_label).unwrap_or(0);
    let says = |at: &usize| {
        lines.get(*at).is_some_and(|line| label_of(line).is_none() && !undecorated(line).is_empty())
    };
    let of_details = |at: &usize| label(*at).is_some_and(|label| DETAILS.contains(&&*label));
    let Some(first) = (start..lines.len()).take_while(|at| !of_details(at)).find(says) else {
        return lines
            .iter()
            .take_while(|line| !line.trim().is_empty())
            .copied()
            .collect::<Vec<_>>()
            .join(" ");
    };
    let is_item = |line: &&&str| list_item(line.trim_start()).is_some();
    let in_list = lines.get(first).is_some_and(|line| is_item(&line));
    let rest = lines.iter().skip(first + 1).take_while(|line| !line.trim().is_empty());
    let rest = rest.take_while(|line| !(in_list && is_item(line)));
    let begin = lines.get(first).map_or("", |line| without_purpose(undecorated(line)));
    std::iter::once(begin).chain(rest.copied()).collect::<Vec<_>>().join(" ")
}

/// Returns a line without emoji, marks of headings and of list items at its beginning.
fn undecorated(line: &str) -> &str {
    let mut line = line.trim();
    loop {
        let rest = list_item(line).unwrap_or(line);
        let rest = rest.trim_start_matches(|c: char| c == '#' || is_emoji(c)).trim_start();
        if rest.len() == line.len() {
            return line;
        }
        line = rest;
    }
}

/// Returns the text of an item of a list: behind `- `, `* `, `• ` or `1. `.
fn list_item(line: &str) -> Option<&str> {
    let marked = ["- ", "* ", "• "].iter().find_map(|mark| line.strip_prefix(mark));
    let numbered = || {
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
        (rest.len() < line.len()).then(|| rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") ")))?
    };
    marked.or_else(numbered)
}

/// True for pictographs, their variation selectors and joiners; no letters of any script are among them.
fn is_emoji(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{2bff}' | '\u{fe00}'..='\u{fe0f}' | '\u{200d}' | '\u{1f000}'..='\u{1faff}')
}

/// Returns the label that a line is, in lower case: a heading of Markdown, or a few words with a colon.
fn label_of(line: &str) -> Option<String> {
    let heading = line.trim_start().starts_with('#');
    let text = undecorated(line).trim_matches(['*', '_']).trim();
    let label = text.strip_suffix(':').map(|label| label.trim_end_matches(['*', '_']));
    let few = |label: &str| !label.is_empty() && label.split_whitespace().count() <= MAX_LABEL_WORDS;
    match label.filter(|label| few(label)) {
        Some(label) => Some(label.to_lowercase()),
        None => (heading && few(text)).then(|| text.to_lowercase()),
    }
}

fn is_purpose(label: &str) -> bool {
    PURPOSES.contains(&label)
}

/// Removes a label of the purpose at the beginning of a line, and the mark of a list behind it.
fn without_purpose(line: &str) -> &str {
    match line.split_once(':') {
        Some((label, rest)) if is_purpose(&label.trim_matches(['*', '_', ' ']).to_lowercase()) => {
            let rest = undecorated(rest.trim_start_matches(['*', '_']));
            if rest.is_empty() { line } else { rest }
        }
        _ => line,
    }
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
    fn a_sentence_survives_headings_labels_and_emoji() {
        for (text, sentence) in [
            (
                "🛡️ Guardrails:\n  1. Ask the user first. Always.\n\n🎯 Purpose:\n  1. Creates several objects \
                 at once.\n  2. Keeps them.\n",
                "Creates several objects at once.",
            ),
            ("🎯 Purpose: 1. Retrieves one object. By id.", "Retrieves one object."),
            ("# Search\n\nFinds pages. Fast.", "Finds pages."),
            ("**Description:** Reads a file. Whole.", "Reads a file."),
            ("🔍 Search the web. And more.", "Search the web."),
            ("- Lists pages\n- Lists posts", "Lists pages"),
            ("Guardrails:\nAsk first.", "Ask first."),
            ("# Search", "# Search"),
            ("# Fetches a page of the web.\n\nArgs:\n  url: the address", "Fetches a page of the web."),
            ("Search:\n\nArgs:\n  url: the address", "Search:"),
            ("Note: this reads a file. Whole.", "Note: this reads a file."),
            ("3.5 million pages are searched. Fast.", "3.5 million pages are searched."),
            (
                "Use this to do one of the following:\n- read\n- write",
                "Use this to do one of the following: - read - write",
            ),
            ("Purpose:", "Purpose:"),
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
