//! The data of the first page.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use axum::Extension;
use axum::extract::State;
use axum::response::Html;
use vmcp_config::status::BackendStatus;
use vmcp_console::pages::overview::{Activity, MAX_SPARKS, Overview, overview};
use vmcp_engine::telemetry::calls::Outcome;
use vmcp_engine::telemetry::recent::CallEntry;

use super::access::{ConsoleDoor, Visitor};
use crate::port::admin::status;

/// Time of which calls are counted.
const LATELY: Duration = Duration::from_mins(1);

/// Answers `GET /console/`.
pub(super) async fn show(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
) -> Html<String> {
    let status = status::report(door.admin());
    let named = |backend: &BackendStatus| Some((backend.name.clone(), remedy(&door, backend)?));
    let entries = door.admin().0.calls.entries(0).entries;
    let snapshot = door.engine().snapshot();
    let data = Overview {
        remedies: status.backends.iter().filter_map(named).collect(),
        activity: activity(entries.iter().map(|(_, entry)| &**entry), SystemTime::now()),
        optimizer_tokens: snapshot.config.optimizer.enabled.then(|| snapshot.whole_view().optimizer_tokens),
        status,
    };
    Html(overview(&door.frame(&visitor), &data))
}

/// Returns the remedy for the last error of a server.
pub(super) fn remedy(door: &ConsoleDoor, backend: &BackendStatus) -> Option<String> {
    let remedy = door.admin().0.console.remedy?;
    remedy(&backend.name, backend.last_error.as_deref()?)
}

/// Returns the figures of calls at the time `now`.
fn activity<'a>(calls: impl Iterator<Item = &'a CallEntry>, now: SystemTime) -> Activity {
    let mut times = Vec::new();
    let mut by_server: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut activity = Activity::default();
    for CallEntry { at, record, .. } in calls {
        activity.kept += 1;
        activity.last_minute += usize::from(now.duration_since(*at).is_ok_and(|age| age <= LATELY));
        activity.failed += usize::from(record.outcome != Outcome::Ok);
        times.push(record.took.as_secs_f64() * 1e3);
        if let Some(server) = &record.backend
            && record.requests > 0
        {
            by_server.entry(server.to_string()).or_default().push(record.backend_took.as_secs_f64() * 1e3);
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
    use vmcp_engine::access::identity::Principal;
    use vmcp_engine::telemetry::calls::{CallRecord, Origin};

    use super::*;

    #[test]
    fn figures_are_of_the_kept_calls() {
        let now = SystemTime::now();
        let call = |age: u64, took: u64, outcome: Outcome| {
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
            CallEntry { number: 1, at: now - Duration::from_secs(age), record }
        };
        let calls = [call(5, 10, Outcome::Ok), call(50, 30, Outcome::Denied), call(70, 20, Outcome::Ok)];
        let figures = activity(calls.iter(), now);
        assert_eq!((figures.kept, figures.last_minute, figures.failed), (3, 2, 1));
        assert_eq!((figures.median_ms, figures.p99_ms), (Some(20.0), Some(30.0)));
        assert!((figures.by_server["jira"] - 10.0).abs() < 1e-9, "{:?}", figures.by_server);
        assert_eq!(figures.latest_by_server["jira"].len(), 3);
        assert!((figures.latest_by_server["jira"][1] - 15.0).abs() < 1e-9, "in the order of time");
        let many: Vec<_> = (0..99).map(|took| call(1, took, Outcome::Ok)).collect();
        let latest = &activity(many.iter(), now).latest_by_server["jira"];
        assert_eq!(latest.len(), MAX_SPARKS);
        assert!((latest[MAX_SPARKS - 1] - 49.0).abs() < 1e-9, "the newest calls stay: {latest:?}");
        assert_eq!(activity([].iter(), now).median_ms, None);
    }
}
