//! [`CallFigures`]: number, failures and duration of calls within a time.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use vmcp_engine::telemetry::recent::RecentCall;

/// Shortest time that a rate is taken over: one call just after the start is not 60 a minute.
const MIN_SPAN: Duration = Duration::from_mins(1);
/// Calls that a server keeps.
const KEPT_CALLS: usize = 1000;
/// Outcomes that count as success, or as the client's own wish.
const GOOD: [&str; 2] = ["ok", "cancelled"];

/// Figures of some calls.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallFigures {
    /// Number of calls.
    pub(super) calls: usize,
    /// Calls per minute.
    pub(super) per_minute: f64,
    /// Calls that failed or were denied; a cancelled one is neither.
    pub(super) failed: usize,
    /// Median of the durations, in milliseconds.
    pub(super) p50_ms: Option<f64>,
    /// 99th percentile of the durations, in milliseconds.
    pub(super) p99_ms: Option<f64>,
}

/// Counts the calls that ended within `window` before `now` and that `wanted` accepts. `all` are the latest
/// calls, the oldest first; where they do not reach back so far, the rate is over the time that they cover.
pub(super) fn figures(
    all: &[RecentCall],
    now: SystemTime,
    window: Duration,
    wanted: &dyn Fn(&RecentCall) -> bool,
) -> CallFigures {
    let age = |call: &RecentCall| {
        let ended = humantime::parse_rfc3339(&call.at).ok()?;
        // A clock of the server that is ahead makes a call of the future.
        Some(now.duration_since(ended).unwrap_or_default())
    };
    let chosen = all.iter().filter(|call| wanted(call) && age(call).is_some_and(|age| age <= window));
    let chosen: Vec<&RecentCall> = chosen.collect();
    let reach = all.first().and_then(age).unwrap_or_default();
    let span = if reach < window { reach.max(MIN_SPAN).min(window) } else { window };
    // Fewer calls than the server keeps: the oldest is the first call of the process.
    let span = if all.len() < KEPT_CALLS { window } else { span };
    let mut durations: Vec<f64> = chosen.iter().map(|call| call.took_ms).collect();
    durations.sort_by(f64::total_cmp);
    let failed = chosen.iter().filter(|call| !GOOD.contains(&call.outcome.as_str())).count();
    CallFigures {
        calls: chosen.len(),
        per_minute: chosen.len() as f64 * 60.0 / span.as_secs_f64(),
        failed,
        p50_ms: percentile(&durations, 50),
        p99_ms: percentile(&durations, 99),
    }
}

/// Returns the nearest-rank percentile of sorted values.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Makes a call of a backend that ended at a time.
    pub(in crate::cli::operate::top) fn call(
        backend: &str,
        at: SystemTime,
        took_ms: f64,
        outcome: &str,
    ) -> RecentCall {
        RecentCall {
            id: Some(1),
            at: humantime::format_rfc3339_millis(at).to_string(),
            via: None,
            method: "tools/call".to_owned(),
            backend: Some(backend.to_owned()),
            item: None,
            outcome: outcome.to_owned(),
            took_ms,
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    #[test]
    fn calls_of_the_window_are_counted_and_placed() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(10_000);
        let window = Duration::from_mins(5);
        let ago = |seconds: u64| now - Duration::from_secs(seconds);
        let mut all = vec![call("a", ago(400), 9000.0, "denied")];
        all.extend((0..100).map(|n| call("a", ago(100), f64::from(n) + 1.0, "ok")));
        all.push(call("a", ago(10), 5.0, "timeout"));
        all.push(call("b", ago(10), 5.0, "cancelled"));
        let of_a = figures(&all, now, window, &|call| call.backend.as_deref() == Some("a"));
        assert_eq!((of_a.calls, of_a.failed), (101, 1));
        assert_eq!((of_a.p50_ms, of_a.p99_ms), (Some(50.0), Some(99.0)));
        assert!((of_a.per_minute - 20.2).abs() < 1e-9, "{of_a:?}");
        let none = figures(&all, now, window, &|_| false);
        assert_eq!(none, CallFigures::default());
    }

    #[test]
    fn a_rate_is_over_the_time_that_the_kept_calls_cover() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(10_000);
        let all: Vec<_> = (0..1000).map(|_| call("a", now - Duration::from_secs(100), 1.0, "ok")).collect();
        let found = figures(&all, now, Duration::from_mins(5), &|_| true);
        assert!((found.per_minute - 600.0).abs() < 1e-9, "{found:?}");
    }
}
