//! [`ReplicaActivity`]: the latest calls and the clients of one replica, as figures of pages need them.

use std::collections::BTreeMap;
use std::time::SystemTime;

use axum::extract::State;
use axum::response::Json;
use serde::{Deserialize, Serialize};
use vmcp_config::status::{BackendState, BackendStatus};
use vmcp_console::pages::clients::{Caller, MAX_CALLERS};
use vmcp_console::text::{MAX_LINE, inert};
use vmcp_engine::engine::replicas::{OfReplica, OtherReplicas, Waiting};
use vmcp_engine::telemetry::calls::Outcome;
use vmcp_engine::telemetry::recent::CallEntry;

use crate::port::admin::Admin;
use crate::port::console::access::ConsoleDoor;
use crate::port::console::call_pages::{caller, issuer};

/// Path at which other replicas answer.
const PATH: &str = "/admin/replica/activity";
/// Most failed servers that a replica names.
const MAX_FAILING: usize = 200;

/// Figures of one replica.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::port::console) struct ReplicaActivity {
    /// The kept calls.
    pub(in crate::port::console) calls: Vec<ActiveCall>,
    /// Callers of these calls, the busiest first.
    pub(in crate::port::console) callers: Vec<ActiveCaller>,
    /// Connections of clients.
    pub(in crate::port::console) connections: u64,
    /// Sessions at servers.
    pub(in crate::port::console) sessions: usize,
    /// Failed servers, by name, with their last errors.
    pub(in crate::port::console) failing: BTreeMap<String, String>,
}

/// One call that has ended.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::port::console) struct ActiveCall {
    /// Milliseconds since its end. Clocks of replicas differ, so that no time of day travels.
    pub(in crate::port::console) age_ms: u64,
    /// Milliseconds that it took.
    pub(in crate::port::console) took_ms: f64,
    /// True if it ended in `ok`.
    pub(in crate::port::console) is_ok: bool,
    /// Server that had a request of it.
    pub(in crate::port::console) server: Option<String>,
    /// Milliseconds that the server took.
    pub(in crate::port::console) server_ms: f64,
}

/// One caller of the latest calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::port::console) struct ActiveCaller {
    pub(in crate::port::console) who: String,
    pub(in crate::port::console) issuer: String,
    pub(in crate::port::console) calls: usize,
    pub(in crate::port::console) failed: usize,
}

/// Answers `GET /admin/replica/activity`.
pub(in crate::port::console) async fn serve(State(admin): State<Admin>) -> Json<OfReplica<ReplicaActivity>> {
    let replica = admin.0.engine.replica_id().to_owned();
    Json(OfReplica { replica, answer: own(&admin) })
}

/// Asks the other replicas for their activity.
pub(in crate::port::console) async fn of_others(door: &ConsoleDoor) -> OtherReplicas<ReplicaActivity> {
    door.engine().ask_other_replicas(PATH, Waiting::Page).await
}

/// Returns the activity of this process.
pub(in crate::port::console) fn own(Admin(inner): &Admin) -> ReplicaActivity {
    let kept = inner.calls.entries(0).entries;
    let entries = || kept.iter().map(|(_, entry)| &**entry);
    let now = SystemTime::now();
    let statuses = inner.engine.backend_status();
    ReplicaActivity {
        calls: entries().map(|entry| ActiveCall::of(entry, now)).collect(),
        callers: callers(entries().map(ActiveCaller::of)),
        connections: u64::try_from(inner.engine.metrics().client_connections.get()).unwrap_or_default(),
        sessions: statuses.iter().map(|status| status.sessions).sum(),
        failing: statuses.iter().filter_map(failure).take(MAX_FAILING).collect(),
    }
}

fn failure(status: &BackendStatus) -> Option<(String, String)> {
    let error = status.last_error.as_deref().filter(|_| status.state == BackendState::Failed)?;
    Some((status.name.clone(), inert(error, MAX_LINE)))
}

impl ActiveCall {
    /// Returns the figures of a call at the time `now`.
    pub(in crate::port::console) fn of(
        CallEntry { at, record, .. }: &CallEntry,
        now: SystemTime,
    ) -> ActiveCall {
        let age = now.duration_since(*at).unwrap_or_default();
        ActiveCall {
            age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            took_ms: record.took.as_secs_f64() * 1e3,
            is_ok: record.outcome == Outcome::Ok,
            server: record.backend.as_deref().filter(|_| record.requests > 0).map(str::to_owned),
            server_ms: record.backend_took.as_secs_f64() * 1e3,
        }
    }
}

impl ActiveCaller {
    fn of(CallEntry { record, .. }: &CallEntry) -> ActiveCaller {
        ActiveCaller {
            who: caller(&record.principal),
            issuer: issuer(&record.principal),
            calls: 1,
            failed: usize::from(record.outcome != Outcome::Ok),
        }
    }
}

/// Sums callers by issuer and name, the busiest first.
pub(in crate::port::console) fn callers(of: impl Iterator<Item = ActiveCaller>) -> Vec<ActiveCaller> {
    let mut by_name: BTreeMap<(String, String), ActiveCaller> = BTreeMap::new();
    for caller in of {
        let ActiveCaller { who, issuer, calls, failed } = caller;
        let sum = by_name.entry((issuer.clone(), who.clone())).or_insert_with(|| ActiveCaller {
            who,
            issuer,
            ..ActiveCaller::default()
        });
        sum.calls = sum.calls.saturating_add(calls);
        sum.failed = sum.failed.saturating_add(failed);
    }
    let mut callers: Vec<_> = by_name.into_values().collect();
    callers.sort_by_key(|caller| std::cmp::Reverse(caller.calls));
    callers.truncate(MAX_CALLERS);
    callers
}

impl From<ActiveCaller> for Caller {
    fn from(ActiveCaller { who, issuer, calls, failed }: ActiveCaller) -> Caller {
        Caller { who, issuer, calls, failed }
    }
}

#[cfg(test)]
mod tests {
    use vmcp_engine::access::identity::{Identity, Principal};
    use vmcp_engine::telemetry::calls::{CallRecord, Origin};

    use super::*;

    fn entry(principal: Principal, outcome: Outcome) -> CallEntry {
        let record = CallRecord::begin(principal, None, Origin::Client);
        CallEntry { number: 1, at: SystemTime::now(), record: CallRecord { outcome, ..record } }
    }

    #[test]
    fn callers_are_summed_the_busiest_first() {
        let call =
            |address: &str, outcome: Outcome| ActiveCaller::of(&entry(Principal::at(address), outcome));
        let own =
            [call("10.0.0.1", Outcome::Ok), call("10.0.0.2", Outcome::Denied), call("10.0.0.2", Outcome::Ok)];
        let of_other = ActiveCaller { calls: 4, failed: 2, ..call("10.0.0.1", Outcome::Ok) };
        let shown = callers(own.into_iter().chain([of_other]));
        let shown: Vec<_> = shown.iter().map(|it| (it.who.as_str(), it.calls, it.failed)).collect();
        assert_eq!(shown, [("10.0.0.1", 5, 2), ("10.0.0.2", 2, 1)]);
    }

    #[test]
    fn callers_of_one_name_at_two_issuers_are_two() {
        let call = |issuer: &str| {
            let identity = Identity::known(issuer, "ci", serde_json::Map::new(), None);
            ActiveCaller::of(&entry(Principal::from(identity), Outcome::Ok))
        };
        let shown = callers([call("https://a"), call("https://b"), call("https://b")].into_iter());
        let shown: Vec<_> = shown.iter().map(|it| (it.issuer.as_str(), it.who.as_str(), it.calls)).collect();
        assert_eq!(shown, [("https://b", "ci", 2), ("https://a", "ci", 1)]);
    }
}
