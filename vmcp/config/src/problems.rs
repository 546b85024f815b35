//! Mistakes in a configuration, each with its path, its line and its remedy, and the [`Report`] that collects
//! them.

pub(crate) mod nearest;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::ops::Bound;

use serde::{Deserialize, Serialize};

use crate::references;

/// Most problems that [`Problems`] prints; the rest is counted.
const MAX_SHOWN: usize = 100;

/// One mistake, or one thing worth a warning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Problem {
    /// Path: `backends[1].url` in a file, `spec.optimizer` in a resource; empty for the whole.
    pub path: String,
    /// Mistake, lower case.
    pub message: String,
    /// Remedy: a clause that says what to write instead.
    pub remedy: String,
    /// Line in the file, from 1, if known. A missing key has the line of its parent; a resource has no lines.
    pub line: Option<u32>,
}

impl Problem {
    /// Creates a problem without a line: `message` says what is wrong, `remedy` what to do about it.
    pub fn new(path: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), remedy: remedy.into(), line: None }
    }

    /// Formats the problem with its place: `vmcp.yaml:12: backends[1].url: …; remedy`.
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

/// Every mistake in one file, in the order of its lines; formatted one a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems {
    /// Name of the file, as given to [`load`](crate::load).
    pub source_name: String,
    /// At least one problem.
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

/// Returns a setting that must be there; reports `key` of `path` as missing if it is not.
pub(crate) fn required<'a, T>(
    value: Option<&'a T>,
    path: &str,
    key: &str,
    report: &mut Report,
) -> Option<&'a T> {
    let at = self::key(path, key);
    if value.is_none() && !report.is_dropped(&at) {
        report.problem(&at, "missing", format!("add `{key}`"));
    }
    value
}

/// Returns the path of `key` below `parent`. A key that is not a plain word is quoted: `overrides["a.b"]`.
pub(crate) fn key(parent: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    match (plain, parent.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{parent}.{key}"),
        (false, _) => format!("{parent}[{key:?}]"),
    }
}

/// Returns the path of the item at `index` of the list at `parent`.
pub(crate) fn item(parent: &str, index: usize) -> String {
    format!("{parent}[{index}]")
}

/// Returns true for the path of a backend's setting, but its name, or of credentials of backends.
pub(crate) fn is_of_backend(path: &str) -> bool {
    let of_credentials =
        path.starts_with("outgoingAuth.default.") || path.starts_with("outgoingAuth.backends");
    of_credentials
        || path
            .strip_prefix("backends[")
            .and_then(|rest| rest.split_once("]."))
            .is_some_and(|(_, key)| key != "name")
}

/// Yields the path itself, then its parents up to the root (an empty path).
fn with_parents(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rfind(['.', '[']) {
        Some(end) => path.get(..end),
        None => (!path.is_empty()).then_some(""),
    })
}

/// Collector of the findings of all steps for one file.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Line of every node of the document, by path.
    pub lines: HashMap<String, u32>,
    /// Text, as written, of every value that refers to the environment or a file, by path.
    pub references: BTreeMap<String, String>,
    /// Secrets that references stand for, by the path of the value that they are part of.
    pub secrets: BTreeMap<String, Vec<String>>,
    /// Paths whose value was dropped as wrong: consequences of its absence are not reported.
    dropped: HashSet<String>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    /// Settings of backends whose references have no value, or a wrong one, each a warning too.
    absent: Vec<Problem>,
}

impl Report {
    /// Adds a mistake, unless its path or a parent of it was dropped before. A wrong value that a reference
    /// stands for costs its backend alone: the file is right, and another value mends it.
    pub(crate) fn problem(&mut self, path: &str, message: impl Into<String>, remedy: impl Into<String>) {
        if self.is_dropped(path) {
            return;
        }
        match self.references.get(path).filter(|_| is_of_backend(path)) {
            Some(written) => {
                let message = format!("{} (from {})", message.into(), references::named(written));
                self.wrong_value(path, &message, remedy.into());
            }
            None => self.mistake(path, message, remedy),
        }
    }

    /// Adds a mistake of the file itself, whatever the value at its path is, unless the path or a parent of
    /// it was dropped before.
    pub(crate) fn mistake(&mut self, path: &str, message: impl Into<String>, remedy: impl Into<String>) {
        if !self.is_dropped(path) {
            let problem = self.describe(path, message.into(), remedy.into());
            self.problems.push(problem);
        }
    }

    /// Returns true if the value at this path, or a parent of it, was dropped as wrong.
    pub(crate) fn is_dropped(&self, path: &str) -> bool {
        with_parents(path).any(|path| self.dropped.contains(path))
    }

    /// Adds a mistake and drops its value: later steps see the key as absent and say nothing about it.
    pub(crate) fn drop_value(&mut self, path: &str, message: impl Into<String>, remedy: impl Into<String>) {
        self.problem(path, message, remedy);
        self.ignore(path);
    }

    /// Suppresses all later problems at this path and below.
    pub(crate) fn ignore(&mut self, path: &str) {
        self.dropped.insert(path.to_owned());
    }

    /// Adds a warning about a setting that is allowed but probably not meant.
    pub(crate) fn warn(&mut self, path: &str, message: impl Into<String>, remedy: impl Into<String>) {
        let warning = self.describe(path, message.into(), remedy.into());
        self.warnings.push(warning);
    }

    /// Adds a warning about a reference whose value is wrong, and suppresses all later problems at its path.
    fn wrong_value(&mut self, path: &str, message: &str, remedy: String) {
        let setting = path.split_once("].").map_or(path, |(_, setting)| setting);
        self.absent.push(self.describe(path, format!("{setting}: {message}"), remedy.clone()));
        self.warn(path, message, remedy);
        self.ignore(path);
    }

    /// Adds a warning about a reference without a value, and suppresses all later problems at its path.
    pub(crate) fn absent_value(&mut self, path: &str, message: String, remedy: String) {
        let warning = self.describe(path, message, remedy);
        self.absent.push(warning.clone());
        self.warnings.push(warning);
        self.ignore(path);
    }

    /// Returns the first reference without a value, or with a wrong one, at or below a path.
    pub(crate) fn absent_below(&self, path: &str) -> Option<&Problem> {
        self.absent.iter().find(|absent| with_parents(&absent.path).any(|parent| parent == path))
    }

    /// Returns the secrets that references below an item of a list stand for.
    pub(crate) fn secrets_below<'a>(&'a self, item: &'a str) -> impl Iterator<Item = String> + 'a {
        let from = self.secrets.range::<str, _>((Bound::Included(item), Bound::Unbounded));
        from.take_while(move |(at, _)| at.starts_with(item)).flat_map(|(_, secrets)| secrets.iter().cloned())
    }

    /// Formats a value for a message: quoted and cut at 60 characters. A value from the environment or a file
    /// may be a secret and is never shown.
    pub(crate) fn shown(&self, path: &str, value: &str) -> String {
        if let Some(written) = self.references.get(path) {
            let source = match written {
                _ if references::refers_to_file(written) => "a file",
                _ if references::refers_to_secret(written) => "a stored secret",
                _ => "an environment variable",
            };
            return format!("the value of {source}");
        }
        let mut text: String = value.chars().take(60).collect();
        if text.len() < value.len() {
            text.push('…');
        }
        format!("`{}`", text.escape_debug())
    }

    /// Returns a name for the value at a path that shows nothing of it: the reference that it was written as.
    pub(crate) fn named(&self, path: &str) -> String {
        let written = self.references.get(path).and_then(|written| references::alone(written));
        written.map_or_else(|| "the value".to_owned(), |written| format!("`{written}`"))
    }

    /// Returns the problems, or the warnings where no problem was found; both in the order of their lines.
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
