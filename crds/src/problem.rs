//! Mistakes in a resource, each with its path and remedy.

use std::fmt;

pub use vmcp_config::Problem;

/// Most problems that [`Invalid`] prints; the rest is counted. Conditions are read by people.
const SHOWN: usize = 10;

/// Every mistake in a resource, formatted in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Invalid(
    /// At least one problem.
    pub Vec<Problem>,
);

impl Invalid {
    /// Returns the value, or the problems.
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
