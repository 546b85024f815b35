//! [`ToolFilter`]: the tools that a rule means, by names and backends.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::rules::NamePattern;

/// The tools that a rule means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolFilter {
    /// Patterns of names; none: all tools of the backends.
    tools: Vec<NamePattern>,
    /// Names of backends; none: all.
    backends: BTreeSet<Arc<str>>,
}

impl ToolFilter {
    /// Makes a filter of the texts of a configuration.
    pub(super) fn new(tools: &[String], backends: &[String]) -> ToolFilter {
        ToolFilter {
            tools: tools.iter().map(|pattern| NamePattern::new(pattern.as_str())).collect(),
            backends: backends.iter().map(|name| name.as_str().into()).collect(),
        }
    }

    /// Returns true if a tool is meant: `name` is the listed name, `own_name` the backend's, which counts
    /// where backends are named.
    pub(super) fn means(&self, backend: &str, name: &str, own_name: &str) -> bool {
        let of_backend = self.backends.is_empty() || self.backends.contains(backend);
        let named = |pattern: &NamePattern| {
            pattern.matches(name) || (!self.backends.is_empty() && pattern.matches(own_name))
        };
        of_backend && (self.tools.is_empty() || self.tools.iter().any(named))
    }
}
