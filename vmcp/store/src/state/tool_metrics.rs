//! Aggregates of each tool's calls: counts, latency, the last error, and the recent success rate.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, named_params, params};
use serde::{Deserialize, Serialize};

use super::StateStore;
use super::call_log::{self, CallFact};
use crate::error::StoreError;

/// Calls over which the recent figures are averaged. Up to this number they are the plain mean; beyond it
/// they are an exponentially weighted moving average, in which a call counts 1/50.
const RECENT_CALLS: u64 = 50;

/// The aggregates of one tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolMetrics {
    /// The backend's name.
    pub backend: String,
    /// The tool's own name at its backend.
    pub tool: String,
    /// Calls.
    pub call_count: u64,
    /// Calls that succeeded.
    pub success_count: u64,
    /// Calls that failed: an error result, no answer, an answer too late.
    pub failure_count: u64,
    /// Mean latency of all calls, in milliseconds.
    pub avg_latency_ms: f64,
    /// Mean latency of about the last 50 calls, in milliseconds.
    pub recent_latency_ms: f64,
    /// Success rate of about the last 50 calls, 0 to 1.
    pub recent_success_rate: f64,
    /// Time of the last call.
    pub last_called_at: i64,
    /// Time of the last successful call.
    pub last_success_at: Option<i64>,
    /// Text of the last error; later successes leave it.
    pub last_error: Option<String>,
    /// Time of the last error.
    pub last_error_at: Option<i64>,
    /// Time of the first call.
    pub created_at: i64,
    /// Time of the last change of this row.
    pub updated_at: i64,
}

impl ToolMetrics {
    /// The aggregates of a tool before its first call, at `now`.
    pub fn new(backend: &str, tool: &str, now: i64) -> ToolMetrics {
        ToolMetrics {
            backend: backend.to_owned(),
            tool: tool.to_owned(),
            call_count: 0,
            success_count: 0,
            failure_count: 0,
            avg_latency_ms: 0.0,
            recent_latency_ms: 0.0,
            recent_success_rate: 0.0,
            last_called_at: now,
            last_success_at: None,
            last_error: None,
            last_error_at: None,
            created_at: now,
            updated_at: now,
        }
    }

    /// Share of all calls that succeeded, 0 to 1; 0 before the first call.
    pub fn success_rate(&self) -> f64 {
        self.success_count as f64 / self.call_count.max(1) as f64
    }

    /// Counts a call. Means are running means: `mean += (x − mean) / n`.
    pub fn add(&mut self, call: &CallFact) {
        self.call_count += 1;
        self.avg_latency_ms += (call.latency_ms - self.avg_latency_ms) / self.call_count as f64;
        let recent = self.call_count.min(RECENT_CALLS) as f64;
        self.recent_latency_ms += (call.latency_ms - self.recent_latency_ms) / recent;
        self.recent_success_rate += (f64::from(u8::from(call.succeeded)) - self.recent_success_rate) / recent;
        self.last_called_at = self.last_called_at.max(call.at);
        self.updated_at = self.updated_at.max(call.at);
        if call.succeeded {
            self.success_count += 1;
            self.last_success_at = self.last_success_at.max(Some(call.at));
        } else {
            self.failure_count += 1;
            self.last_error = Some(call.error.as_deref().unwrap_or(call.outcome).to_owned());
            self.last_error_at = self.last_error_at.max(Some(call.at));
        }
    }

    /// Adds what another process counted of this tool. Means are weighted by calls, recent ones by the calls
    /// that they are made of.
    pub fn merge(&mut self, other: &ToolMetrics) {
        let mean = |one: f64, calls: u64, two: f64, others: u64| {
            (one * calls as f64 + two * others as f64) / (calls + others).max(1) as f64
        };
        let (calls, others) = (self.call_count, other.call_count);
        self.avg_latency_ms = mean(self.avg_latency_ms, calls, other.avg_latency_ms, others);
        let (recent, their_recent) = (calls.min(RECENT_CALLS), others.min(RECENT_CALLS));
        self.recent_latency_ms = mean(self.recent_latency_ms, recent, other.recent_latency_ms, their_recent);
        self.recent_success_rate =
            mean(self.recent_success_rate, recent, other.recent_success_rate, their_recent);
        self.call_count += other.call_count;
        self.success_count += other.success_count;
        self.failure_count += other.failure_count;
        if other.last_error_at > self.last_error_at {
            self.last_error.clone_from(&other.last_error);
            self.last_error_at = other.last_error_at;
        }
        self.last_called_at = self.last_called_at.max(other.last_called_at);
        self.last_success_at = self.last_success_at.max(other.last_success_at);
        self.created_at = self.created_at.min(other.created_at);
        self.updated_at = self.updated_at.max(other.updated_at);
    }
}

impl StateStore {
    /// Counts calls, all or none, as (backend, tool, calls). Returns the aggregates of these tools as they
    /// are now: another process may have counted calls of the same tools.
    pub fn record_calls(&self, calls: &[(&str, &str, &[CallFact])]) -> Result<Vec<ToolMetrics>, StoreError> {
        self.write(|transaction| {
            let mut all = Vec::with_capacity(calls.len());
            for (backend, tool, calls) in calls {
                let Some(first) = calls.first() else { continue };
                let known = find(transaction, backend, tool)?;
                let mut metrics = known.unwrap_or_else(|| ToolMetrics::new(backend, tool, first.at));
                calls.iter().for_each(|call| metrics.add(call));
                put(transaction, &metrics)?;
                call_log::append(transaction, backend, tool, calls)?;
                all.push(metrics);
            }
            Ok(all)
        })
    }

    /// Stores aggregates in place of those of the same tools.
    pub fn put_tool_metrics<'a>(
        &self,
        all: impl IntoIterator<Item = &'a ToolMetrics>,
    ) -> Result<(), StoreError> {
        self.write(|transaction| all.into_iter().try_for_each(|metrics| put(transaction, metrics)))
    }

    /// Returns the aggregates of one tool; `None` before its first call.
    pub fn tool_metrics(&self, backend: &str, tool: &str) -> Result<Option<ToolMetrics>, StoreError> {
        self.read(|connection| find(connection, backend, tool))
    }

    /// Returns the aggregates of all tools, ordered by backend and tool.
    pub fn all_tool_metrics(&self) -> Result<Vec<ToolMetrics>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM tool_metrics ORDER BY server_name, tool_name"
                ))?
                .query_map([], row)?
                .collect()
        })
    }

    /// Deletes metrics and call log: of one tool, of one backend, or of all. Returns the number of tools.
    pub fn reset_tool_metrics(&self, backend: Option<&str>, tool: Option<&str>) -> Result<usize, StoreError> {
        self.write(|transaction| {
            let mut tools = 0;
            for table in ["tool_calls", "tool_metrics_daily", "tool_metrics"] {
                let delete = format!(
                    "DELETE FROM {table} WHERE (?1 IS NULL OR server_name = ?1) AND (?2 IS NULL OR tool_name = ?2)"
                );
                tools = transaction.execute(&delete, params![backend, tool])?;
            }
            Ok(tools)
        })
    }
}

const COLUMNS: &str = "server_name, tool_name, call_count, success_count, failure_count, avg_latency_ms,
    recent_latency_ms, recent_success_rate, last_called_at, last_success_at, last_error, last_error_at,
    created_at, updated_at";

fn find(connection: &Connection, backend: &str, tool: &str) -> rusqlite::Result<Option<ToolMetrics>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM tool_metrics WHERE server_name = ?1 AND tool_name = ?2"
        ))?
        .query_row([backend, tool], row)
        .optional()
}

fn put(transaction: &Transaction<'_>, metrics: &ToolMetrics) -> rusqlite::Result<()> {
    let mut replace = transaction.prepare_cached(&format!(
        "INSERT OR REPLACE INTO tool_metrics ({COLUMNS}) VALUES (:server, :tool, :calls, :successes, :failures,
           :latency, :recent_latency, :recent_rate, :called, :succeeded, :error, :error_at, :created, :updated)"
    ))?;
    replace.execute(named_params! {
        ":server": metrics.backend, ":tool": metrics.tool, ":calls": metrics.call_count,
        ":successes": metrics.success_count, ":failures": metrics.failure_count,
        ":latency": metrics.avg_latency_ms, ":recent_latency": metrics.recent_latency_ms,
        ":recent_rate": metrics.recent_success_rate, ":called": metrics.last_called_at,
        ":succeeded": metrics.last_success_at, ":error": metrics.last_error,
        ":error_at": metrics.last_error_at, ":created": metrics.created_at, ":updated": metrics.updated_at,
    })?;
    Ok(())
}

fn row(row: &Row<'_>) -> rusqlite::Result<ToolMetrics> {
    Ok(ToolMetrics {
        backend: row.get(0)?,
        tool: row.get(1)?,
        call_count: row.get(2)?,
        success_count: row.get(3)?,
        failure_count: row.get(4)?,
        avg_latency_ms: row.get(5)?,
        recent_latency_ms: row.get(6)?,
        recent_success_rate: row.get(7)?,
        last_called_at: row.get(8)?,
        last_success_at: row.get(9)?,
        last_error: row.get(10)?,
        last_error_at: row.get(11)?,
        created_at: row.get(12)?,
        updated_at: row.get(13)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(calls: &[(bool, f64)], from: i64) -> ToolMetrics {
        let mut metrics = ToolMetrics::new("s", "t", from);
        for (at, (succeeded, latency_ms)) in (from..).zip(calls) {
            let error = (!succeeded).then(|| format!("failed at {at}").into());
            metrics.add(&CallFact {
                at,
                succeeded: *succeeded,
                latency_ms: *latency_ms,
                outcome: "x",
                error,
            });
        }
        metrics
    }

    #[test]
    fn merged_counts_are_those_of_one_process_that_had_counted_all() {
        let (one, other) = ([(true, 100.0), (false, 300.0)], [(true, 10.0), (true, 20.0), (false, 30.0)]);
        let mut merged = counted(&one, 1);
        merged.merge(&counted(&other, 3));
        let mut whole = counted(&[one.as_slice(), other.as_slice()].concat(), 1);
        for mean in ["avg", "recent", "rate"] {
            let of = |metrics: &mut ToolMetrics| match mean {
                "avg" => std::mem::take(&mut metrics.avg_latency_ms),
                "recent" => std::mem::take(&mut metrics.recent_latency_ms),
                _ => std::mem::take(&mut metrics.recent_success_rate),
            };
            let (merged, whole) = (of(&mut merged), of(&mut whole));
            assert!((merged - whole).abs() < 1e-9, "{mean}: {merged} {whole}");
        }
        assert_eq!(merged, whole);
        let mut backwards = counted(&other, 3);
        backwards.merge(&counted(&one, 1));
        assert_eq!(backwards.last_error.as_deref(), Some("failed at 5"), "the newest error stays");
    }
}
