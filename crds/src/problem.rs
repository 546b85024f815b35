//! What is wrong with a resource: every mistake with its path and what to do about it.

use std::fmt;

/// How many problems [`Invalid`] prints; the rest is counted. Conditions are read by people.
const SHOWN: usize = 10;

/// One mistake, or one thing worth a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where: `spec.optimizer.search.maxTools`.
    pub path: String,
    /// What is wrong, lower case.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

impl Problem {
    /// `message` says what is wrong, `remedy` what to do about it.
    pub fn new(path: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.path, self.message, self.remedy)
    }
}

/// Why a resource makes no sense: all of it, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Invalid(
    /// At least one.
    pub Vec<Problem>,
);

impl Invalid {
    /// The value when there is no problem.
    pub(crate) fn unless_none<T>(value: Option<T>, problems: Vec<Problem>) -> Result<T, Self> {
        match value {
            Some(value) if problems.is_empty() => Ok(value),
            _ => Err(Self(problems)),
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().take(SHOWN).enumerate() {
            let separator = if i == 0 { "" } else { " | " };
            write!(f, "{separator}{problem}")?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " | {more} more problems; mend these first"),
        }
    }
}
