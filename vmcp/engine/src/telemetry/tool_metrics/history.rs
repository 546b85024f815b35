//! History of calls: the sums of each day, which stay, and the log of single calls, as
//! `/admin/tool-metrics/days`, `/admin/tool-metrics/calls` and `vmcp metrics` show them.

use serde::{Deserialize, Serialize};
use vmcp_store::{CallHistory, CallLog, DayMetrics, SearchDay, StateStore, StoreError};

use super::report::{rounded, time};
use crate::random::now_ms;

/// Milliseconds of a day (UTC).
pub(super) const DAY: i64 = 24 * 60 * 60 * 1000;
/// Days of an answer whose request names none.
const DEFAULT_DAYS: u32 = 30;
/// Most days that a request may name.
const MAX_DAYS: u32 = 3650;
/// Entries of an answer whose request names no limit.
const DEFAULT_LIMIT: usize = 100;
/// Most entries of an answer.
const MAX_LIMIT: usize = 10_000;

/// Choice of days or of calls.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HistoryQuery {
    /// Only the tools of this backend.
    pub server: Option<String>,
    /// Only the tool with this name, its backend's own.
    pub tool: Option<String>,
    /// Days to look back, this one included; 30 without it.
    pub days: Option<u32>,
    /// Most entries, the newest; 100 without it.
    pub limit: Option<usize>,
}

/// Sums of tools by day, newest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DaysReport {
    /// One entry for each tool that was called on a day.
    pub days: Vec<ToolDay>,
    /// One entry for each day on which clients searched; none where a backend or a tool is chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<SearchesOfDay>,
}

/// The searches of one day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchesOfDay {
    /// The day (UTC), such as `2026-11-27`.
    pub day: String,
    /// Searches.
    pub searches: u64,
    /// Searches that found no tool.
    pub without_result: u64,
    /// Searches after which no found tool was called.
    pub without_call: u64,
    /// Tokens that the answers cost less than the definitions of all tools.
    pub tokens_saved: u64,
}

/// The sums of one tool's calls on one day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDay {
    /// The day (UTC), such as `2026-11-27`.
    pub day: String,
    /// The backend's name.
    pub server: String,
    /// The tool's own name at its backend.
    pub tool: String,
    /// Calls.
    pub call_count: u64,
    /// Calls that succeeded.
    pub success_count: u64,
    /// Calls that failed.
    pub failure_count: u64,
    /// Mean latency in milliseconds.
    pub avg_latency_ms: f64,
}

/// Single calls, newest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallsReport {
    /// The calls.
    pub calls: Vec<PastCall>,
}

/// One call of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PastCall {
    /// Time at which it ended.
    pub at: String,
    /// The backend's name.
    pub server: String,
    /// The tool's own name at its backend.
    pub tool: String,
    /// Short name of the end, such as `ok`, `tool_error` or `timeout`.
    pub outcome: String,
    /// Time that the backend took, in milliseconds.
    pub latency_ms: f64,
}

impl HistoryQuery {
    /// Checks the numbers; the error names the field and its range.
    pub fn check(&self) -> Result<(), String> {
        if self.days.is_some_and(|days| !(1..=MAX_DAYS).contains(&days)) {
            return Err(format!("days: write a number from 1 to {MAX_DAYS}"));
        }
        if self.limit.is_some_and(|limit| !(1..=MAX_LIMIT).contains(&limit)) {
            return Err(format!("limit: write a number from 1 to {MAX_LIMIT}"));
        }
        Ok(())
    }

    /// Reads the sums of days.
    pub fn days(&self, store: &StateStore) -> Result<DaysReport, StoreError> {
        let wanted = self.wanted(now_ms());
        let days = store.daily_metrics(wanted)?;
        // Searches are of all tools.
        let is_of_all = self.server.is_none() && self.tool.is_none();
        let searches = if is_of_all { store.search_days(wanted.since, wanted.limit)? } else { Vec::new() };
        Ok(DaysReport {
            days: days.into_iter().map(ToolDay::from).collect(),
            searches: searches.into_iter().map(SearchesOfDay::from).collect(),
        })
    }

    /// Reads single calls.
    pub fn calls(&self, store: &StateStore) -> Result<CallsReport, StoreError> {
        let calls = store.logged_calls(self.wanted(now_ms()))?;
        Ok(CallsReport { calls: calls.into_iter().map(PastCall::from).collect() })
    }

    pub(super) fn wanted(&self, now_ms: i64) -> CallHistory<'_> {
        let today = now_ms - now_ms.rem_euclid(DAY);
        let days = i64::from(self.days.unwrap_or(DEFAULT_DAYS).max(1));
        CallHistory {
            backend: self.server.as_deref(),
            tool: self.tool.as_deref(),
            since: today.saturating_sub((days - 1).saturating_mul(DAY)),
            limit: self.limit.unwrap_or(DEFAULT_LIMIT),
        }
    }
}

/// Returns the choice with room for each day that a request may name.
pub(super) fn every_day(wanted: CallHistory<'_>) -> CallHistory<'_> {
    CallHistory { limit: MAX_DAYS as usize, ..wanted }
}

/// Returns the date (UTC) of a day: RFC 3339 begins with it.
pub(super) fn date(begin: i64) -> String {
    time(begin).chars().take(10).collect()
}

impl From<SearchDay> for SearchesOfDay {
    fn from(of: SearchDay) -> Self {
        let SearchDay { day, searches, without_result, without_call, tokens_saved } = of;
        SearchesOfDay { day: date(day), searches, without_result, without_call, tokens_saved }
    }
}

impl From<DayMetrics> for ToolDay {
    fn from(day: DayMetrics) -> Self {
        ToolDay {
            day: date(day.day),
            server: day.backend,
            tool: day.tool,
            call_count: day.call_count,
            success_count: day.success_count,
            failure_count: day.failure_count,
            avg_latency_ms: rounded(day.avg_latency_ms, 1),
        }
    }
}

impl From<CallLog> for PastCall {
    fn from(call: CallLog) -> Self {
        PastCall {
            at: time(call.at),
            server: call.backend,
            tool: call.tool,
            outcome: call.outcome,
            latency_ms: rounded(call.latency_ms, 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use vmcp_store::CallFact;

    use super::*;

    #[test]
    fn a_history_of_days_begins_at_midnight() {
        let store = StateStore::in_memory().unwrap();
        let today = now_ms() - now_ms().rem_euclid(DAY);
        let call = |at| CallFact { at, succeeded: true, latency_ms: 2.04, outcome: "ok", error: None };
        let calls = [call(today - DAY - 1), call(today - DAY), call(today)];
        store.record_calls(&[("s", "t", &calls[..])]).unwrap();
        let of = |days| HistoryQuery { days: Some(days), ..HistoryQuery::default() };
        let counts = [1, 2, 3].map(|days| of(days).days(&store).unwrap().days.len());
        assert_eq!(counts, [1, 2, 3]);
        let calls = of(2).calls(&store).unwrap().calls;
        assert_eq!(calls.len(), 2);
        assert_eq!((&*calls[0].outcome, calls[0].latency_ms), ("ok", 2.0));
        let search = SearchDay { day: today, searches: 2, without_result: 1, ..SearchDay::default() };
        store.add_search_days(&[search, SearchDay { day: today - 2 * DAY, ..search }]).unwrap();
        let searches = of(2).days(&store).unwrap().searches;
        assert_eq!(searches.len(), 1);
        assert_eq!((searches[0].searches, searches[0].without_result), (2, 1));
        let of_one = HistoryQuery { server: Some("s".to_owned()), ..of(2) }.days(&store).unwrap();
        assert!(of_one.searches.is_empty() && !of_one.days.is_empty(), "searches are of all tools");
        let newest = of(2).days(&store).unwrap().days.remove(0);
        assert_eq!(time(today), format!("{}T00:00:00Z", newest.day));
        assert_eq!((newest.call_count, newest.success_count, newest.failure_count), (1, 1, 0));
    }

    #[test]
    fn numbers_out_of_range_are_named() {
        let fault = |text: &str| serde_json::from_str::<HistoryQuery>(text).unwrap().check().unwrap_err();
        assert!(fault(r#"{"days": 0}"#).contains("days: write a number from 1 to 3650"));
        assert!(fault(r#"{"limit": 10001}"#).contains("limit: write a number from 1 to 10000"));
        assert_eq!(HistoryQuery::default().check(), Ok(()));
    }
}
