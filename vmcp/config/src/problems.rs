//! What is wrong with a configuration: every mistake with its path, its line and what to do about it.

pub(crate) mod nearest;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::references;

/// How many problems [`Problems`] prints; the rest is counted.
const MAX_SHOWN: usize = 100;

/// One mistake, or one thing worth a warning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Where: `backends[1].url`; empty for the file as a whole.
    pub path: String,
    /// What is wrong, lower case.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
    /// Line in the file, from 1, where known. For a key that is missing: the line of what lacks it.
    pub line: Option<u32>,
}

impl Problem {
    /// Creates a problem without a line: `message` says what is wrong, `remedy` what to do about it.
    pub fn new(path: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), remedy: remedy.into(), line: None }
    }

    /// `vmcp.yaml:12: backends[1].url: …; remedy`.
    pub fn render(&self, source: &str) -> String {
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        let path = if self.path.is_empty() { String::new() } else { format!("{}: ", self.path) };
        format!("{source}{line}: {path}{}; {}", self.message, self.remedy)
    }
}

/// Formats the problem without its line: `spec.port: …; remedy`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.path, self.message, self.remedy)
    }
}

/// Everything that is wrong with one file, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems {
    /// Name of the file, as given to [`super::load`].
    pub source_name: String,
    /// At least one.
    pub list: Vec<Problem>,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.list.iter().take(MAX_SHOWN).enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{}", problem.render(&self.source_name))?;
        }
        match self.list.len().saturating_sub(MAX_SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n{}: {more} more problems; mend these first", self.source_name),
        }
    }
}

/// The path of `key` below `parent`. Keys that are no plain word are quoted: `overrides["a.b"]`.
pub(crate) fn key(parent: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    match (plain, parent.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{parent}.{key}"),
        (false, _) => format!("{parent}[{key:?}]"),
    }
}

/// The path of the item at `index` of the list at `parent`.
pub(crate) fn item(parent: &str, index: usize) -> String {
    format!("{parent}[{index}]")
}

/// The path itself, then its parents up to the root (an empty path).
fn with_parents(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rfind(['.', '[']) {
        Some(end) => path.get(..end),
        None => (!path.is_empty()).then_some(""),
    })
}

/// What reading, checking and validating one file have found so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Line of every node of the document, by path.
    pub lines: HashMap<String, u32>,
    /// The text, as written, of every value that refers to the environment or a file, by path.
    pub references: BTreeMap<String, String>,
    /// Paths whose value was dropped as wrong: what follows from its absence is not worth a second line.
    dropped: HashSet<String>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Report {
    /// Notes a mistake, unless its place (or a parent) was already found to be wrong.
    pub(crate) fn problem(&mut self, path: &str, message: impl Into<String>, remedy: impl Into<String>) {
        if !self.is_dropped(path) {
            let problem = self.describe(path, message.into(), remedy.into());
            self.problems.push(problem);
        }
    }

    /// Whether the value at this path, or one that holds it, was already found to be wrong.
    pub(crate) fn is_dropped(&self, path: &str) -> bool {
        with_parents(path).any(|path| self.dropped.contains(path))
    }

    /// Notes a mistake whose value is left out of what is validated later.
    pub(crate) fn drop_value(&mut self, path: &str, message: impl Into<String>, remedy: impl Into<String>) {
        self.problem(path, message, remedy);
        self.ignore(path);
    }

    /// From now on, nothing is said about this path.
    pub(crate) fn ignore(&mut self, path: &str) {
        self.dropped.insert(path.to_owned());
    }

    /// Notes something that is no mistake but probably not meant.
    pub(crate) fn warn(&mut self, path: &str, message: impl Into<String>, remedy: impl Into<String>) {
        let warning = self.describe(path, message.into(), remedy.into());
        self.warnings.push(warning);
    }

    /// A value for a message: quoted, shortened, and hidden when it came from shared.
    pub(crate) fn shown(&self, path: &str, value: &str) -> String {
        if let Some(written) = self.references.get(path) {
            let source =
                if references::refers_to_file(written) { "a file" } else { "an environment variable" };
            return format!("the value of {source}");
        }
        let mut text: String = value.chars().take(60).collect();
        if text.len() < value.len() {
            text.push('…');
        }
        format!("`{}`", text.escape_debug())
    }

    /// The warnings when nothing is wrong, else the problems; both in the order of their lines.
    pub(crate) fn finish(mut self, source_name: &str) -> Result<Vec<Problem>, Problems> {
        if self.problems.is_empty() {
            self.warnings.sort_by_key(|warning| warning.line);
            return Ok(self.warnings);
        }
        self.problems.sort_by_key(|problem| problem.line);
        Err(Problems { source_name: source_name.to_owned(), list: self.problems })
    }

    fn describe(&self, path: &str, message: String, remedy: String) -> Problem {
        let line = with_parents(path).find_map(|path| self.lines.get(path)).copied();
        Problem { path: path.to_owned(), message, remedy, line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_like_the_file_and_quote_odd_keys() {
        assert_eq!(key(&item("backends", 1), "url"), "backends[1].url");
        assert_eq!(key("overrides", "a.b"), r#"overrides["a.b"]"#);
    }

    #[test]
    fn a_missing_key_has_the_line_of_its_nearest_parent() {
        let mut report =
            Report { lines: HashMap::from([("backends[1]".to_owned(), 7)]), ..Report::default() };
        report.problem("backends[1].name", "missing", "name it");
        assert_eq!(report.finish("f").unwrap_err().to_string(), "f:7: backends[1].name: missing; name it");
    }

    #[test]
    fn nothing_is_said_below_what_was_dropped() {
        let mut report = Report::default();
        report.drop_value("a.b", "wrong", "mend");
        report.problem("a.b.c", "missing", "add");
        report.problem("a.bc", "missing", "add");
        let paths: Vec<_> = report.finish("f").unwrap_err().list.into_iter().map(|p| p.path).collect();
        assert_eq!(paths, ["a.b", "a.bc"]);
    }

    #[test]
    fn a_long_list_is_cut() {
        let mut report = Report::default();
        for i in 0..103 {
            report.problem(&item("x", i), "wrong", "mend");
        }
        assert!(
            report.finish("f").unwrap_err().to_string().ends_with("\nf: 3 more problems; mend these first")
        );
    }
}
