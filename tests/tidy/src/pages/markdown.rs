//! Lines and headings of a Markdown page.

use std::collections::HashSet;

/// A heading outside of code blocks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Heading<'a> {
    /// Line, counted from 1.
    pub(crate) line: usize,
    /// Number of `#`.
    pub(crate) level: usize,
    /// Text without `#`.
    pub(crate) text: &'a str,
    /// Target of links to it, as code hosts make it.
    pub(crate) anchor: String,
}

/// Returns the lines outside of code blocks, with their numbers, counted from 1.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        (!in_code && !is_fence).then_some((number + 1, line))
    })
}

/// Returns the headings of a page.
pub(crate) fn headings(text: &str) -> Vec<Heading<'_>> {
    let mut taken = HashSet::new();
    let mut headings = Vec::new();
    for (line, whole) in prose(text) {
        let text = whole.trim_start_matches('#');
        let level = whole.len() - text.len();
        let Some(text) = text.strip_prefix(' ').filter(|_| level > 0) else { continue };
        let base = anchor(text);
        let mut anchor = base.clone();
        let mut repeated = 0;
        while !taken.insert(anchor.clone()) {
            repeated += 1;
            anchor = format!("{base}-{repeated}");
        }
        headings.push(Heading { line, level, text: text.trim(), anchor });
    }
    headings
}

/// Returns the anchor that code hosts make of a heading: lower case, spaces to dashes, punctuation dropped.
fn anchor(heading: &str) -> String {
    heading
        .trim()
        .chars()
        .filter_map(|c| match c {
            ' ' | '-' => Some('-'),
            '_' => Some('_'),
            c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

/// Returns the trimmed cells of a table's row; `None` for another line and for the line below the head.
pub(crate) fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let is_rule = inner.chars().all(|c| matches!(c, '-' | ':' | '|' | ' '));
    (!is_rule).then(|| inner.split('|').map(str::trim).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_code_hosts() {
        assert_eq!(anchor(" Measure on your own catalog"), "measure-on-your-own-catalog");
        assert_eq!(anchor(" `vmcp serve`: both"), "vmcp-serve-both");
    }

    #[test]
    fn headings_are_numbered_when_they_repeat_and_are_no_comments_of_code() {
        let found = headings("# A\n\n```sh\n# not this\n```\n## B\n# A\n");
        let found: Vec<_> =
            found.iter().map(|heading| (heading.line, heading.level, heading.anchor.as_str())).collect();
        assert_eq!(found, [(1, 1, "a"), (6, 2, "b"), (7, 1, "a-1")]);
    }

    #[test]
    fn rows_have_cells() {
        assert_eq!(cells("| a | `b` |  |"), Some(vec!["a", "`b`", ""]));
        assert_eq!(cells("|---|:--|--|"), None);
        assert_eq!(cells("text | text"), None);
    }
}
