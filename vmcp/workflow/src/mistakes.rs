//! Mistakes of a definition, each with its path and its remedy.

use std::fmt;

/// One mistake: `steps[2].condition: …; remedy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Path below the definition; empty for the whole.
    pub path: String,
    /// Mistake, lower case.
    pub message: String,
    /// Remedy: a clause that says what to write instead.
    pub remedy: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.path.is_empty() { "" } else { ": " };
        write!(f, "{}{separator}{}; {}", self.path, self.message, self.remedy)
    }
}

/// Collects the mistakes of one definition.
#[derive(Debug, Default)]
pub(crate) struct Mistakes {
    list: Vec<Mistake>,
}

impl Mistakes {
    pub(crate) fn add(
        &mut self,
        path: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.list.push(Mistake { path: path.into(), message: message.into(), remedy: remedy.into() });
    }

    /// Returns `value`, or all mistakes if there are any.
    pub(crate) fn or<T>(self, value: Option<T>) -> Result<T, Vec<Mistake>> {
        match value {
            Some(value) if self.list.is_empty() => Ok(value),
            _ => Err(self.list),
        }
    }
}
