//! `optimizer.queryLog`: searches of clients, and the calls that followed them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

// Raw and validated form in one type: the schema has its bounds.
/// Log of searches: the words of each search, the tools that it found, and the tools that its client called
/// within ten minutes. `vmcp eval --log` reports on it, and the console shows what was not found. Kept in
/// `state.db`. The words are those of clients and may hold what their users said: off by default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "QueryLog")]
pub struct QueryLog {
    /// Log searches. `false` deletes nothing; `vmcp eval --log --delete` does.
    pub enabled: bool,
    /// Most searches; beyond it, the oldest are deleted.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_searches: u32,
    /// Days after which a search is deleted.
    #[schemars(range(min = 1, max = 365))]
    pub keep_days: u32,
}

impl Default for QueryLog {
    fn default() -> Self {
        QueryLog { enabled: false, max_searches: 10_000, keep_days: 30 }
    }
}

#[cfg(test)]
mod tests {
    use crate::load;

    #[test]
    fn searches_are_logged_only_where_that_is_configured() {
        let log = load("", "f", &|_| None).unwrap().config.optimizer.query_log;
        assert_eq!((log.enabled, log.max_searches, log.keep_days), (false, 10_000, 30));
        let text = "optimizer: { queryLog: { enabled: true, maxSearches: 0, keepDays: 400 } }";
        let problems = load(text, "f", &|_| None).unwrap_err().to_string();
        for field in ["optimizer.queryLog.maxSearches", "optimizer.queryLog.keepDays"] {
            assert!(problems.contains(field), "{problems}");
        }
    }
}
