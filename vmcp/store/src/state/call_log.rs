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

/// Choice of days or of logged calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallHistory<'a> {
    /// Only tools of this backend.
    pub backend: Option<&'a str>,
    /// Only the tool with this name, its backend's own.
    pub tool: Option<&'a str>,
    /// Only days that begin, or calls that ended, at this time or later.
    pub since: i64,
    /// Most entries; older ones are left out.
    pub limit: usize,
}

/// The sums of one tool's calls on one day.
#[derive(Debug, Clone, PartialEq)]
pub struct DayMetrics {
    /// The backend's name.
    pub backend: String,
    /// The tool's own name at its backend.
    pub tool: String,
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
    /// The backend's name.
    pub backend: String,
    /// The tool's own name at its backend.
    pub tool: String,
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

    /// Returns the sums of tools by day, newest first.
    pub fn daily_metrics(&self, wanted: CallHistory<'_>) -> Result<Vec<DayMetrics>, StoreError> {
        let day = |row: &Row<'_>| {
            Ok(DayMetrics {
                backend: row.get(0)?,
                tool: row.get(1)?,
                day: row.get(2)?,
                call_count: row.get(3)?,
                success_count: row.get(4)?,
                failure_count: row.get(5)?,
                avg_latency_ms: row.get(6)?,
            })
        };
        let CallHistory { backend, tool, since, limit } = wanted;
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT server_name, tool_name, day, call_count, success_count, failure_count, avg_latency_ms
                     FROM tool_metrics_daily
                     WHERE (?1 IS NULL OR server_name = ?1) AND (?2 IS NULL OR tool_name = ?2) AND day >= ?3
                     ORDER BY day DESC, server_name, tool_name LIMIT ?4",
                )?
                .query_map(params![backend, tool, since, limit], day)?
                .collect()
        })
    }

    /// Returns logged calls, newest first.
    pub fn logged_calls(&self, wanted: CallHistory<'_>) -> Result<Vec<CallLog>, StoreError> {
        let call = |row: &Row<'_>| {
            Ok(CallLog {
                backend: row.get(0)?,
                tool: row.get(1)?,
                at: row.get(2)?,
                outcome: row.get(3)?,
                latency_ms: row.get(4)?,
            })
        };
        let CallHistory { backend, tool, since, limit } = wanted;
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT server_name, tool_name, called_at, outcome, latency_ms FROM tool_calls
                     WHERE (?1 IS NULL OR server_name = ?1) AND (?2 IS NULL OR tool_name = ?2) AND called_at >= ?3
                     ORDER BY called_at DESC, id DESC LIMIT ?4",
                )?
                .query_map(params![backend, tool, since, limit], call)?
                .collect()
        })
    }
}
