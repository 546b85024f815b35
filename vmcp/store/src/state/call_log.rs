//! The log of single calls, kept for some days, and the sums of each day, kept for good.

use rusqlite::{Row, Transaction, params};

use super::StateStore;
use crate::error::StoreError;

/// Milliseconds of a day (UTC).
const DAY: i64 = 24 * 60 * 60 * 1000;
/// Calls of one tool that one [`StateStore::record_calls`] logs singly, the newest; all are counted.
const MAX_LOGGED_PER_BATCH: usize = 64;
/// Calls that the log keeps, whatever their age; older ones are deleted.
const MAX_LOGGED: usize = 100_000;

/// One call, as it is counted. Has neither arguments nor a result.
#[derive(Debug, Clone, PartialEq)]
pub struct CallFact {
    /// Time at which the call ended.
    pub at: i64,
    /// True if the tool returned a result without `isError`.
    pub succeeded: bool,
    /// Time that the backend took, in milliseconds.
    pub latency_ms: f64,
    /// Short name of the end, such as `ok`, `tool_error` or `timeout`.
    pub outcome: &'static str,
    /// Text of the error, shortened.
    pub error: Option<Box<str>>,
}

/// The sums of one tool's calls on one day.
#[derive(Debug, Clone, PartialEq)]
pub struct DayMetrics {
    /// Begin of the day (UTC).
    pub day: i64,
    /// Calls.
    pub call_count: u64,
    /// Calls that succeeded.
    pub success_count: u64,
    /// Calls that failed.
    pub failure_count: u64,
    /// Mean latency in milliseconds.
    pub avg_latency_ms: f64,
}

/// One logged call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallLog {
    /// Time at which the call ended.
    pub at: i64,
    /// Short name of the end.
    pub outcome: String,
    /// Time that the backend took, in milliseconds.
    pub latency_ms: f64,
}

/// Logs calls and adds them to the sums of their days.
pub(super) fn append(
    transaction: &Transaction<'_>,
    backend: &str,
    tool: &str,
    calls: &[CallFact],
) -> rusqlite::Result<()> {
    let newest = calls.get(calls.len().saturating_sub(MAX_LOGGED_PER_BATCH)..).unwrap_or_default();
    let mut insert = transaction.prepare_cached(
        "INSERT INTO tool_calls (server_name, tool_name, called_at, outcome, latency_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for call in newest {
        insert.execute(params![backend, tool, call.at, call.outcome, call.latency_ms])?;
    }
    let mut sum = transaction.prepare_cached(
        "INSERT INTO tool_metrics_daily (day, server_name, tool_name, call_count, success_count, failure_count,
                                         avg_latency_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?4 - ?5, ?6)
         ON CONFLICT (server_name, tool_name, day) DO UPDATE SET
           avg_latency_ms = (avg_latency_ms * call_count + excluded.avg_latency_ms * excluded.call_count)
                            / (call_count + excluded.call_count),
           call_count = call_count + excluded.call_count,
           success_count = success_count + excluded.success_count,
           failure_count = failure_count + excluded.failure_count",
    )?;
    let day = |call: &CallFact| call.at - call.at.rem_euclid(DAY);
    for calls in calls.chunk_by(|one, other| day(one) == day(other)) {
        let Some(first) = calls.first() else { continue };
        let latency: f64 = calls.iter().map(|call| call.latency_ms).sum();
        let successes = calls.iter().filter(|call| call.succeeded).count();
        let count = calls.len();
        sum.execute(params![day(first), backend, tool, count, successes, latency / count as f64])?;
    }
    Ok(())
}

impl StateStore {
    /// Deletes logged calls that ended before `before`, and those beyond the newest 100,000. The sums stay.
    /// Returns the number of deleted calls.
    pub fn prune_calls(&self, before: i64) -> Result<usize, StoreError> {
        self.write(|transaction| {
            let old = transaction.execute("DELETE FROM tool_calls WHERE called_at < ?1", [before])?;
            let beyond = transaction.execute(
                "DELETE FROM tool_calls WHERE id <= (SELECT max(id) FROM tool_calls) - ?1",
                [MAX_LOGGED],
            )?;
            Ok(old + beyond)
        })
    }

    /// Returns the sums of one tool by day, oldest first.
    pub fn daily_metrics(&self, backend: &str, tool: &str) -> Result<Vec<DayMetrics>, StoreError> {
        let day = |row: &Row<'_>| {
            Ok(DayMetrics {
                day: row.get(0)?,
                call_count: row.get(1)?,
                success_count: row.get(2)?,
                failure_count: row.get(3)?,
                avg_latency_ms: row.get(4)?,
            })
        };
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT day, call_count, success_count, failure_count, avg_latency_ms FROM tool_metrics_daily
                     WHERE server_name = ?1 AND tool_name = ?2 ORDER BY day",
                )?
                .query_map([backend, tool], day)?
                .collect()
        })
    }

    /// Returns the logged calls of one tool, newest first, at most `limit`.
    pub fn logged_calls(&self, backend: &str, tool: &str, limit: usize) -> Result<Vec<CallLog>, StoreError> {
        let call =
            |row: &Row<'_>| Ok(CallLog { at: row.get(0)?, outcome: row.get(1)?, latency_ms: row.get(2)? });
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT called_at, outcome, latency_ms FROM tool_calls WHERE server_name = ?1 AND tool_name = ?2
                     ORDER BY called_at DESC, id DESC LIMIT ?3",
                )?
                .query_map(params![backend, tool, limit], call)?
                .collect()
        })
    }
}
