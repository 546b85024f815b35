//! Rules for comments: openings, width, no codes of documents that are not here.

use crate::comments::blocks;
use crate::{Finding, Repository};

/// Openings that make a reader wait for the subject. A comment begins with a verb or with the noun it
/// describes.
const FORBIDDEN_OPENINGS: [&str; 15] = [
    "What",
    "What's",
    "Who",
    "Whoever",
    "Whose",
    "Whom",
    "Whether",
    "How",
    "That",
    "Those",
    "Nor",
    "Nobody",
    "Somebody",
    "The same",
    "See there",
];

/// Columns that a line with a comment may have; the same as `max_width` in rustfmt.toml.
const MAX_COLUMNS: usize = 110;

/// Prefixes of requirement codes: they name a document that is not in this repository.
const CODE_PREFIXES: [&str; 6] = ["R022", "GOB", "GMT", "CARD", "DTD", "P3"];

/// Returns the forbidden opening of a comment's first line, if it has one.
fn forbidden_opening(text: &str) -> Option<&'static str> {
    FORBIDDEN_OPENINGS.into_iter().find(|opening| {
        text.strip_prefix(opening)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '\''))
    })
}

/// Returns the first requirement code in `line`: a prefix, a dash and a digit.
fn requirement_code(line: &str) -> Option<&'static str> {
    CODE_PREFIXES.into_iter().find(|prefix| {
        line.match_indices(prefix).any(|(at, _)| {
            let before = line.get(..at).and_then(|text| text.chars().next_back());
            let mut after = line.get(at + prefix.len()..).unwrap_or_default().chars();
            !before.is_some_and(char::is_alphanumeric)
                && after.next() == Some('-')
                && after.next().is_some_and(|c| c.is_ascii_digit())
        })
    })
}

/// True for a line that holds nothing but one long word, such as a link: it cannot be wrapped.
fn cannot_be_wrapped(line: &str) -> bool {
    line.split_whitespace().filter(|word| !matches!(*word, "//" | "///" | "//!" | "-" | "*")).count() <= 1
}

/// Comments begin with a verb or noun and keep to [`MAX_COLUMNS`].
pub(crate) fn comments(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.rust() {
        let mut find = |line, message| findings.push(Finding { path: file.path.clone(), line, message });
        for block in blocks(&file.text) {
            if let Some(opening) = block.lines.first().and_then(|first| forbidden_opening(first)) {
                find(
                    block.line,
                    format!("comment begins with {opening:?}; begin with a verb or with the noun"),
                );
            }
        }
        for (number, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > MAX_COLUMNS && line.contains("//") && !line.contains('"') && !cannot_be_wrapped(line)
            {
                find(number + 1, format!("comment of {columns} columns; wrap it at {MAX_COLUMNS}"));
            }
        }
    }
    findings.extend(script_comments(repository));
    findings
}

/// Comments of scripts, manifests and build files begin likewise.
fn script_comments(repository: &Repository) -> Vec<Finding> {
    let read = [".sh", ".yaml", ".toml", ".ci/run", "fuzz/run", "Makefile", "Dockerfile", ".dockerignore"];
    let mut findings = Vec::new();
    for file in repository.files.iter().filter(|file| file.ends_in(&read)) {
        let mut in_block = false;
        for (number, line) in file.text.lines().enumerate() {
            let comment = line.trim_start().strip_prefix("# ");
            if let Some(opening) = comment.filter(|_| !in_block).and_then(forbidden_opening) {
                let message = format!("comment begins with {opening:?}; begin with a verb or with the noun");
                findings.push(Finding { path: file.path.clone(), line: number + 1, message });
            }
            in_block = comment.is_some();
        }
    }
    findings
}

/// No requirement codes: a rule that came from a requirement is written as the rule.
pub(crate) fn codes(repository: &Repository) -> Vec<Finding> {
    let own = file!().replace('\\', "/");
    let read = [".rs", ".md", ".sh", ".yaml", ".toml", "Makefile", "Dockerfile", ".tpl", ".txt"];
    let mut findings = Vec::new();
    for file in repository.files.iter().filter(|file| file.ends_in(&read) && file.path != own) {
        for (number, line) in file.text.lines().enumerate() {
            if let Some(prefix) = requirement_code(line) {
                let message = format!("requirement code {prefix}-…; write the rule in words instead");
                findings.push(Finding { path: file.path.clone(), line: number + 1, message });
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openings_are_whole_words() {
        assert_eq!(forbidden_opening("What is kept."), Some("What"));
        assert_eq!(forbidden_opening("The same for hosts."), Some("The same"));
        for fine in ["Whatever", "Whose's", "Thatch", "However", "The samest", "Returns what"] {
            assert_eq!(forbidden_opening(fine), None, "{fine}");
        }
    }

    #[test]
    fn a_code_is_a_prefix_a_dash_and_a_digit() {
        assert_eq!(requirement_code("// limits (GMT-16)"), Some("GMT"));
        for fine in ["GMT-offset", "GMT", "XGOB-1", "UTF-8"] {
            assert_eq!(requirement_code(fine), None, "{fine}");
        }
    }
}
