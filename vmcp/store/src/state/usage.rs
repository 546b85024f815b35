//! Usage over days: sums of calls by day and by tool, made of the sums of each tool and day, and the sums of
//! searches, which are kept for good too.

use rusqlite::params;

use super::StateStore;
use super::call_log::CallHistory;
use crate::error::StoreError;

/// Milliseconds of a day (UTC).
const DAY: i64 = 24 * 60 * 60 * 1000;

/// Calls of all chosen tools on one day.
#[derive(Debug, Clone, PartialEq)]
pub struct DayCalls {
    /// Begin of the day (UTC).
    pub day: i64,
    /// Calls.
    pub calls: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Mean latency in milliseconds.
    pub avg_latency_ms: f64,
}

/// Calls of one tool on all chosen days.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCalls {
    /// The backend's name.
    pub backend: String,
    /// The tool's own name at its backend.
    pub tool: String,
    /// Calls.
    pub calls: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Mean latency in milliseconds.
    pub avg_latency_ms: f64,
}

/// Searches of one day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SearchDay {
    /// Begin of the day (UTC); in [`StateStore::add_search_days`] any time of the day.
    pub day: i64,
    /// Searches.
    pub searches: u64,
    /// Searches that found no tool.
    pub without_result: u64,
    /// Searches after which no found tool was called.
    pub without_call: u64,
    /// Tokens that the answers cost less than the definitions of all tools.
    pub tokens_saved: u64,
}

impl StateStore {
    /// Adds searches to the sums of their days, all or none.
    pub fn add_search_days(&self, days: &[SearchDay]) -> Result<(), StoreError> {
        self.write(|transaction| {
            let mut add = transaction.prepare_cached(
                "INSERT INTO search_days (day, searches, without_result, without_call, tokens_saved)
                 VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (day) DO UPDATE SET
                   searches = searches + excluded.searches,
                   without_result = without_result + excluded.without_result,
                   without_call = without_call + excluded.without_call,
                   tokens_saved = tokens_saved + excluded.tokens_saved",
            )?;
            for SearchDay { day, searches, without_result, without_call, tokens_saved } in days {
                let day = day - day.rem_euclid(DAY);
                let [searches, without_result, without_call, tokens_saved] =
                    [searches, without_result, without_call, tokens_saved]
                        .map(|count| i64::try_from(*count).unwrap_or(i64::MAX));
                add.execute(params![day, searches, without_result, without_call, tokens_saved])?;
            }
            Ok(())
        })
    }

    /// Returns the searches of days that begin at `since` or later, newest first, at most `limit` days.
    pub fn search_days(&self, since: i64, limit: usize) -> Result<Vec<SearchDay>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT day, searches, without_result, without_call, tokens_saved FROM search_days
                     WHERE day >= ?1 ORDER BY day DESC LIMIT ?2",
                )?
                .query_map(params![since, limit], |row| {
                    Ok(SearchDay {
                        day: row.get(0)?,
                        searches: row.get(1)?,
                        without_result: row.get(2)?,
                        without_call: row.get(3)?,
                        tokens_saved: row.get(4)?,
                    })
                })?
                .collect()
        })
    }

    /// Returns the calls of the chosen tools by day, newest first.
    pub fn calls_by_day(&self, wanted: CallHistory<'_>) -> Result<Vec<DayCalls>, StoreError> {
        let CallHistory { backend, tool, since, limit } = wanted;
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT day, sum(call_count), sum(failure_count),
                            sum(avg_latency_ms * call_count) / max(sum(call_count), 1)
                     FROM tool_metrics_daily
                     WHERE (?1 IS NULL OR server_name = ?1) AND (?2 IS NULL OR tool_name = ?2) AND day >= ?3
                     GROUP BY day ORDER BY day DESC LIMIT ?4",
                )?
                .query_map(params![backend, tool, since, limit], |row| {
                    Ok(DayCalls {
                        day: row.get(0)?,
                        calls: row.get(1)?,
                        failures: row.get(2)?,
                        avg_latency_ms: row.get(3)?,
                    })
                })?
                .collect()
        })
    }

    /// Returns the calls of the chosen tools, the most called tool first.
    pub fn calls_by_tool(&self, wanted: CallHistory<'_>) -> Result<Vec<ToolCalls>, StoreError> {
        let CallHistory { backend, tool, since, limit } = wanted;
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT server_name, tool_name, sum(call_count) AS calls, sum(failure_count),
                            sum(avg_latency_ms * call_count) / max(sum(call_count), 1)
                     FROM tool_metrics_daily
                     WHERE (?1 IS NULL OR server_name = ?1) AND (?2 IS NULL OR tool_name = ?2) AND day >= ?3
                     GROUP BY server_name, tool_name ORDER BY calls DESC, server_name, tool_name LIMIT ?4",
                )?
                .query_map(params![backend, tool, since, limit], |row| {
                    Ok(ToolCalls {
                        backend: row.get(0)?,
                        tool: row.get(1)?,
                        calls: row.get(2)?,
                        failures: row.get(3)?,
                        avg_latency_ms: row.get(4)?,
                    })
                })?
                .collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::call_log::CallFact;
    use super::*;

    const TODAY: i64 = 20_000 * DAY;

    fn call(at: i64, succeeded: bool, latency_ms: f64) -> CallFact {
        CallFact { at, succeeded, latency_ms, outcome: "ok", error: None }
    }

    #[test]
    fn calls_are_summed_over_tools_and_over_days() {
        let state = StateStore::in_memory().unwrap();
        let before = TODAY - DAY;
        let of_a = [call(before, true, 10.0), call(TODAY, false, 20.0), call(TODAY + 1, true, 40.0)];
        let of_b = [call(TODAY, true, 60.0)];
        state.record_calls(&[("s", "a", &of_a[..]), ("s2", "b", &of_b[..])]).unwrap();
        let wanted = CallHistory { since: before, limit: 9, ..CallHistory::default() };
        let days = state.calls_by_day(wanted).unwrap();
        let counts: Vec<_> = days.iter().map(|day| (day.day, day.calls, day.failures)).collect();
        assert_eq!(counts, [(TODAY, 3, 1), (before, 1, 0)]);
        assert!((days[0].avg_latency_ms - 40.0).abs() < 1e-9, "weighted by calls: {days:?}");
        let tools = state.calls_by_tool(wanted).unwrap();
        let counts: Vec<_> = tools.iter().map(|tool| (&*tool.tool, tool.calls, tool.failures)).collect();
        assert_eq!(counts, [("a", 3, 1), ("b", 1, 0)]);
        let later = CallHistory { since: TODAY, backend: Some("s"), ..wanted };
        assert_eq!(state.calls_by_tool(later).unwrap()[0].calls, 2);
        assert_eq!(state.calls_by_day(CallHistory { tool: Some("b"), ..wanted }).unwrap()[0].calls, 1);
        assert_eq!(state.calls_by_tool(CallHistory { limit: 1, ..wanted }).unwrap().len(), 1);
    }

    #[test]
    fn searches_are_summed_by_day_and_outlive_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let day =
            |day, searches, tokens_saved| SearchDay { day, searches, tokens_saved, ..SearchDay::default() };
        let state = StateStore::open(folder.path()).unwrap();
        state.add_search_days(&[day(TODAY - 1, 1, 10), day(TODAY + 5, 2, 30)]).unwrap();
        let misses = SearchDay { day: TODAY, without_result: 1, without_call: 2, ..SearchDay::default() };
        state.add_search_days(&[day(TODAY + 6, 3, 5), misses]).unwrap();
        drop(state);
        let days = StateStore::open(folder.path()).unwrap().search_days(TODAY - DAY, 9).unwrap();
        let today =
            SearchDay { day: TODAY, searches: 5, without_result: 1, without_call: 2, tokens_saved: 35 };
        assert_eq!(days, [today, day(TODAY - DAY, 1, 10)]);
    }
}
