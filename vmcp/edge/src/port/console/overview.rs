//! The data of the first page. Servers are those of this process; figures are of all replicas.

pub(super) mod replica_activity;

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use axum::response::Html;
use vmcp_config::status::BackendStatus;
use vmcp_console::pages::overview::{Activity, MAX_SPARKS, Overview, overview};

use self::replica_activity::{ActiveCall, ReplicaActivity, of_others, own};
use super::access::{ConsoleDoor, Visitor};
use super::answer::replicas;
use crate::port::admin::status;

/// Milliseconds of which calls are counted.
const LATELY: u64 = 60_000;
/// Calls that a process keeps: a busier minute has more.
const MAX_KEPT: usize = 1_000;

/// Answers `GET /console/`.
pub(super) async fn show(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
) -> Html<String> {
    let others = of_others(&door).await;
    let mut status = status::report(door.admin());
    let named = |backend: &BackendStatus| Some((backend.name.clone(), remedy(&door, backend)?));
    let remedies = status.backends.iter().filter_map(named).collect();
    let snapshot = door.engine().snapshot();
    let (mut activities, mut other_sessions) = (vec![own(door.admin()).calls], 0);
    let mut failing_elsewhere: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for other in others.answers {
        let ReplicaActivity { calls, callers: _, connections, sessions, failing } = other.answer;
        activities.push(calls);
        status.connections = status.connections.saturating_add(connections);
        other_sessions += sessions;
        for (server, error) in failing {
            failing_elsewhere.entry(server).or_default().push((other.address.to_string(), error));
        }
    }
    let data = Overview {
        remedies,
        activity: activity(activities),
        optimizer_tokens: snapshot.config.optimizer.enabled.then(|| snapshot.whole_view().optimizer_tokens),
        status,
        replicas: replicas(others.census),
        other_sessions,
        failing_elsewhere,
    };
    Html(overview(&door.frame(&visitor), &data))
}

/// Returns the remedy for the last error of a server.
pub(super) fn remedy(door: &ConsoleDoor, backend: &BackendStatus) -> Option<String> {
    let remedy = door.admin().0.console.remedy?;
    remedy(&backend.name, backend.last_error.as_deref()?)
}

/// Returns the figures of the calls of several replicas.
fn activity(of_replicas: Vec<Vec<ActiveCall>>) -> Activity {
    let mut activity = Activity::default();
    for calls in &of_replicas {
        let lately = calls.iter().filter(|call| call.age_ms <= LATELY).count();
        activity.last_minute += lately;
        activity.has_more |= lately >= MAX_KEPT;
    }
    let mut calls: Vec<_> = of_replicas.into_iter().flatten().collect();
    // The oldest first, as the sparklines show them.
    calls.sort_by_key(|call| std::cmp::Reverse(call.age_ms));
    let mut times = Vec::new();
    let mut by_server: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for ActiveCall { took_ms, is_ok, server, server_ms, .. } in calls {
        activity.kept += 1;
        activity.failed += usize::from(!is_ok);
        times.push(took_ms);
        if let Some(server) = server {
            by_server.entry(server).or_default().push(server_ms);
        }
    }
    times.sort_by(f64::total_cmp);
    activity.median_ms = quantile(&times, 0.5);
    activity.p99_ms = quantile(&times, 0.99);
    let latest = |times: &Vec<f64>| {
        times.iter().skip(times.len().saturating_sub(MAX_SPARKS)).copied().collect::<Vec<_>>()
    };
    activity.latest_by_server =
        by_server.iter().map(|(server, times)| (server.clone(), latest(times))).collect();
    activity.by_server = by_server
        .into_iter()
        .filter_map(|(server, mut times)| {
            times.sort_by(f64::total_cmp);
            Some((server, quantile(&times, 0.5)?))
        })
        .collect();
    activity
}

/// Returns a quantile of sorted values by the nearest rank.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use vmcp_engine::access::identity::Principal;
    use vmcp_engine::telemetry::calls::{CallRecord, Origin, Outcome};
    use vmcp_engine::telemetry::recent::CallEntry;

    use super::*;

    fn call(age: u64, took: u64, outcome: Outcome) -> ActiveCall {
        let now = SystemTime::now();
        let record = CallRecord::begin(Principal::default(), None, Origin::Client);
        let took = Duration::from_millis(took);
        let record = CallRecord {
            backend: Some("jira".into()),
            requests: 1,
            outcome,
            took,
            backend_took: took / 2,
            ..record
        };
        let entry = CallEntry { number: 1, at: now - Duration::from_secs(age), record };
        ActiveCall::of(&entry, now)
    }

    #[test]
    fn figures_are_of_the_kept_calls() {
        let calls = vec![call(70, 20, Outcome::Ok), call(50, 30, Outcome::Denied), call(5, 10, Outcome::Ok)];
        let figures = activity(vec![calls]);
        assert_eq!((figures.kept, figures.last_minute, figures.failed), (3, 2, 1));
        assert_eq!((figures.median_ms, figures.p99_ms), (Some(20.0), Some(30.0)));
        assert!((figures.by_server["jira"] - 10.0).abs() < 1e-9, "{:?}", figures.by_server);
        assert_eq!(figures.latest_by_server["jira"].len(), 3);
        assert!((figures.latest_by_server["jira"][1] - 15.0).abs() < 1e-9, "in the order of time");
        let many: Vec<_> = (0..99).map(|took| call(1, took, Outcome::Ok)).collect();
        let latest = &activity(vec![many]).latest_by_server["jira"];
        assert_eq!(latest.len(), MAX_SPARKS);
        assert!((latest[MAX_SPARKS - 1] - 49.0).abs() < 1e-9, "the newest calls stay: {latest:?}");
        assert_eq!(activity(Vec::new()).median_ms, None);
    }

    #[test]
    fn figures_of_replicas_are_joined_in_the_order_of_time() {
        let (one, other) =
            (vec![call(9, 10, Outcome::Ok)], vec![call(30, 40, Outcome::Ok), call(1, 20, Outcome::Ok)]);
        let figures = activity(vec![one, other]);
        assert_eq!((figures.kept, figures.last_minute, figures.has_more), (3, 3, false));
        let latest = figures.latest_by_server["jira"].iter().map(|took| took.round() as u64);
        assert_eq!(latest.collect::<Vec<_>>(), [20, 5, 10]);
        let busy = vec![call(1, 1, Outcome::Ok); MAX_KEPT];
        assert!(activity(vec![Vec::new(), busy]).has_more, "a process forgets calls of a busy minute");
    }
}
