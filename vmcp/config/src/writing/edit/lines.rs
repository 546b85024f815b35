//! Lines of the list `backends` in a text.

use crate::document::{Content, Node, parse};
use crate::problems::Report;

/// The list `backends` in block style, or its absence.
pub(super) struct BackendLines<'a> {
    lines: Vec<&'a str>,
    /// Line of the key `backends`, from 0; `None` without such a key.
    key: Option<usize>,
    /// First line of each entry, from 0.
    starts: Vec<usize>,
    /// Blanks before the `-` of an entry.
    indent: usize,
}

/// Returns the entries of `backends`.
pub(super) fn backends_of(root: &Node) -> Option<&Vec<Node>> {
    let (_, _, list) = entry_of(root)?;
    if let Content::List(list) = &list.content { Some(list) } else { None }
}

fn entry_of(root: &Node) -> Option<&(String, u32, Node)> {
    let Content::Map(entries) = &root.content else { return None };
    entries.iter().find(|(key, _, _)| key == "backends")
}

impl<'a> BackendLines<'a> {
    /// Finds the list; `None` if it is not in block style.
    pub(super) fn find(text: &'a str) -> Option<BackendLines<'a>> {
        let root = parse(text, &mut Report::default())?;
        let lines: Vec<&str> = text.lines().collect();
        let key = entry_of(&root).and_then(|(_, line, _)| usize::try_from(*line).ok()?.checked_sub(1));
        let list = backends_of(&root).map(Vec::as_slice).unwrap_or_default();
        let starts: Option<Vec<usize>> =
            list.iter().map(|entry| usize::try_from(entry.line).ok()?.checked_sub(1)).collect();
        let starts = starts?;
        let mut indent = 2;
        for (index, start) in starts.iter().enumerate() {
            let line = lines.get(*start)?;
            let blanks = blanks(line);
            if !line.trim_start().starts_with("- ") || (index > 0 && blanks != indent) {
                return None;
            }
            indent = blanks;
        }
        // A text in flow style as a whole, such as JSON, has no line for a key of its own.
        match key {
            Some(at) if !lines.get(at)?.starts_with("backends:") => None,
            None if lines.iter().any(|line| line.starts_with(['{', '['])) => None,
            key => Some(BackendLines { lines, key, starts, indent }),
        }
    }

    /// Returns the text with an entry, written without indentation, behind the last one.
    pub(super) fn append(&self, entry: &str) -> String {
        let pad = " ".repeat(self.indent);
        let entry: Vec<String> = entry.lines().map(|line| format!("{pad}{line}")).collect();
        let mut lines: Vec<String> = self.lines.iter().map(|line| (*line).to_owned()).collect();
        let at = match (self.starts.last(), self.key) {
            (Some(last), _) => self.end(*last),
            (None, Some(key)) => {
                // `backends: []`
                if let Some(line) = lines.get_mut(key) {
                    "backends:".clone_into(line);
                }
                key + 1
            }
            (None, None) => {
                lines.push("backends:".to_owned());
                lines.len()
            }
        };
        lines.splice(at..at, entry);
        joined(&lines)
    }

    /// Returns the text without an entry and the comments directly above it.
    pub(super) fn remove(&self, index: usize) -> Option<String> {
        let start = *self.starts.get(index)?;
        let above = comments_above(&self.lines, start, self.indent);
        let mut lines: Vec<String> = self.lines.iter().map(|line| (*line).to_owned()).collect();
        lines.drain(start - above..self.end(start));
        if let (1, Some(key)) = (self.starts.len(), self.key)
            && let Some(line) = lines.get_mut(key)
        {
            "backends: []".clone_into(line);
        }
        Some(joined(&lines))
    }

    /// Returns the text with `enabled: false` in an entry, or without it.
    pub(super) fn set_enabled(&self, index: usize, enabled: bool) -> Option<String> {
        let start = *self.starts.get(index)?;
        let mut lines: Vec<String> = self.lines.iter().map(|line| (*line).to_owned()).collect();
        let inner = self.indent + 2;
        let is_setting = |line: &String| blanks(line) == inner && line.trim_start().starts_with("enabled:");
        let present = (start + 1..self.end(start)).find(|at| lines.get(*at).is_some_and(is_setting));
        match (present, enabled) {
            (Some(at), true) => drop(lines.remove(at)),
            (Some(at), false) => *lines.get_mut(at)? = format!("{}enabled: false", " ".repeat(inner)),
            (None, false) => lines.insert(start + 1, format!("{}enabled: false", " ".repeat(inner))),
            (None, true) => {}
        }
        Some(joined(&lines))
    }

    fn end(&self, start: usize) -> usize {
        end_of_entry(&self.lines, start, self.indent)
    }
}

/// Returns the line behind the entry of a list that begins at `start`; blank lines and comments at its end
/// are not part of it.
pub(super) fn end_of_entry(lines: &[&str], start: usize, indent: usize) -> usize {
    let mut end = start + 1;
    for (at, line) in lines.iter().enumerate().skip(start + 1) {
        let text = line.trim_start();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if blanks(line) <= indent {
            break;
        }
        end = at + 1;
    }
    end
}

/// Returns the number of comments directly above `start` that stand at the same depth.
pub(super) fn comments_above(lines: &[&str], start: usize, indent: usize) -> usize {
    let is_comment = |line: &&&str| line.trim_start().starts_with('#') && blanks(line) == indent;
    lines.get(..start).unwrap_or_default().iter().rev().take_while(is_comment).count()
}

pub(super) fn blanks(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

pub(super) fn joined(lines: &[String]) -> String {
    let mut text = lines.join("\n");
    text.push('\n');
    text
}
