//! [`LogReading`]: the query log, read back from the database.

use std::collections::{BTreeMap, HashMap};

use vmcp_search::measures::search_log::{LoggedCall, LoggedSearch, LoggedTool};
use vmcp_store::{StateStore, StoreError, StoredSearch};

use super::windows::WINDOW_MS;
use crate::telemetry::tool_metrics::ToolKey;

/// Searches and calls of a log.
#[derive(Debug, Default)]
pub struct LogReading {
    /// Searches, newest first, with the calls that followed.
    pub searches: Vec<LoggedSearch>,
    /// Calls that no search came before, by tool.
    pub unsearched: BTreeMap<LoggedTool, u64>,
}

impl LogReading {
    /// Keeps the searches whose report is final: a search with a call, or one so old that a call would not
    /// count as its consequence.
    pub fn retain_ended(&mut self, now_ms: i64) {
        let is_over = |at: i64| now_ms.saturating_sub(at) > WINDOW_MS;
        self.searches.retain(|search| !search.calls.is_empty() || is_over(search.at));
    }
}

/// Reads the searches since a time, in milliseconds since the Unix epoch, at most `limit`, the newest. Calls
/// without a search count from the begin of that day (UTC).
pub fn read(store: &StateStore, since: i64, limit: usize) -> Result<LogReading, StoreError> {
    let stored = store.logged_searches(since, limit)?;
    let oldest = stored.last().map_or(since, |search| search.at);
    let mut calls: HashMap<i64, Vec<LoggedCall>> = HashMap::new();
    for call in store.search_calls(oldest)? {
        let tool = LoggedTool { server: call.backend, tool: call.tool };
        calls.entry(call.search).or_default().push(LoggedCall { tool, rank: call.rank });
    }
    let search = |stored: StoredSearch| {
        let calls = calls.remove(&stored.id).unwrap_or_default();
        LoggedSearch {
            at: stored.at,
            client: stored.owner,
            query: stored.query,
            keywords: stored.keywords,
            found: found(&stored.found),
            calls,
        }
    };
    let searches = stored.into_iter().map(search).collect();
    let mut unsearched = BTreeMap::new();
    for day in store.unsearched_calls(since)? {
        *unsearched.entry(LoggedTool { server: day.backend, tool: day.tool }).or_default() += day.calls;
    }
    Ok(LogReading { searches, unsearched })
}

/// Writes the tools that a search found, as the log stores them: `[["server","tool"],…]`.
pub(super) fn found_json(found: &[ToolKey]) -> String {
    let found: Vec<(&str, &str)> = found.iter().map(|(server, tool)| (&**server, &**tool)).collect();
    serde_json::to_string(&found).unwrap_or_else(|_| "[]".to_owned())
}

/// Reads what [`found_json`] wrote. A text of another form has no tools.
fn found(json: &str) -> Vec<LoggedTool> {
    let found: Vec<(String, String)> = serde_json::from_str(json).unwrap_or_default();
    found.into_iter().map(|(server, tool)| LoggedTool { server, tool }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn found_tools_are_read_as_they_were_written() {
        let json = found_json(&[("s".into(), "a".into()), ("t".into(), "b".into())]);
        let names: Vec<_> = found(&json).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["s/a", "t/b"]);
        assert!(found("no JSON").is_empty());
    }
}
