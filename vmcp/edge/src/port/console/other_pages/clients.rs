//! The data of the page about clients: figures, limits, replicas and callers.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use axum::response::Html;
use vmcp_config::Server;
use vmcp_console::pages::clients::{Caller, Clients, Limit, MAX_CALLERS, Replicas, clients as clients_page};
use vmcp_console::text;
use vmcp_engine::metrics::{Metrics, ShareState};
use vmcp_engine::telemetry::calls::Outcome;
use vmcp_engine::telemetry::recent::CallEntry;

use super::client_query::ClientQuery;
use crate::port::console::access::{ConsoleDoor, Visitor};
use crate::port::console::call_pages::{caller, issuer};

/// Answers `GET /console/clients`.
pub(in crate::port::console) async fn show(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
) -> Html<String> {
    let engine = door.engine();
    let (snapshot, metrics) = (engine.snapshot(), engine.metrics());
    let entries = door.admin().0.calls.entries(0).entries;
    let statuses = engine.backend_status();
    let sessions = statuses.into_iter().filter(|status| status.sessions > 0);
    let data = Clients {
        figures: figures(metrics),
        limits: limits(&snapshot.config.server, metrics),
        replicas: engine
            .census(&snapshot)
            .map(|census| Replicas { answering: census.replicas, unreachable: census.unreachable }),
        callers: callers(entries.iter().map(|(_, entry)| &**entry)),
        sessions: sessions.map(|status| (status.name, status.sessions)).collect(),
        question: ClientQuery::default().question(&snapshot.config, None),
    };
    Html(clients_page(&door.frame(&visitor), &data))
}

fn figures(metrics: &Metrics) -> Vec<(&'static str, String)> {
    vec![
        ("connections", metrics.client_connections.get().to_string()),
        ("requests under way", metrics.client_requests_in_flight.get().to_string()),
        ("open streams", metrics.client_streams.get().to_string()),
        ("of requests and answers in memory", bytes(metrics.buffered_bytes.get())),
    ]
}

/// Returns the limits of the configuration and the fixed ones.
fn limits(server: &Server, metrics: &Metrics) -> Vec<Limit> {
    let mut limits = vec![
        Limit {
            what: "requests at a time",
            per_client: server.max_requests_per_client.to_string(),
            setting: "server.maxRequestsPerClient",
            used: metrics.client_requests_in_flight.get().to_string(),
            ..Limit::default()
        },
        Limit {
            what: "bytes of requests and answers",
            per_client: text::bytes(server.max_buffered_bytes_per_client as u64),
            all: text::bytes(server.max_buffered_bytes as u64),
            setting: "server.maxBufferedBytes, maxBufferedBytesPerClient",
            used: bytes(metrics.buffered_bytes.get()),
            refused: None,
        },
    ];
    limits.extend(metrics.shares.states().into_iter().map(share));
    limits
}

fn share(state: ShareState) -> Limit {
    let ShareState { limit, share, backstop, held, refused } = state;
    let setting = if limit == "connections" { "server.maxConnections, maxConnectionsPerClient" } else { "" };
    Limit {
        what: words(limit),
        per_client: share.to_string(),
        all: backstop.to_string(),
        setting,
        used: held.to_string(),
        refused: Some(refused),
    }
}

/// Returns a limit of the metrics in words.
fn words(limit: &'static str) -> &'static str {
    match limit {
        "parked_calls" => "calls that wait for an answer of their client",
        "questions" => "questions of servers to clients",
        "call_streams" => "streams of calls, kept to be resumed",
        "call_stream_bytes" => "blocks of their events in memory",
        other => other,
    }
}

fn bytes(count: i64) -> String {
    text::bytes(u64::try_from(count).unwrap_or_default())
}

/// Returns the callers of the kept calls, the busiest first.
fn callers<'a>(calls: impl Iterator<Item = &'a CallEntry>) -> Vec<Caller> {
    let mut by_name: BTreeMap<(String, String), Caller> = BTreeMap::new();
    for CallEntry { record, .. } in calls {
        let who = caller(&record.principal);
        let issuer = issuer(&record.principal);
        let key = (issuer.clone(), who.clone());
        let entry = by_name.entry(key).or_insert_with(|| Caller { who, issuer, ..Caller::default() });
        entry.calls += 1;
        entry.failed += usize::from(record.outcome != Outcome::Ok);
    }
    let mut callers: Vec<_> = by_name.into_values().collect();
    callers.sort_by_key(|caller| std::cmp::Reverse(caller.calls));
    callers.truncate(MAX_CALLERS);
    callers
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use vmcp_engine::access::identity::{Identity, Principal};
    use vmcp_engine::telemetry::calls::{CallRecord, Origin};

    use super::*;

    #[test]
    fn callers_are_counted_the_busiest_first() {
        let call = |address: &str, outcome: Outcome| {
            let record = CallRecord::begin(Principal::at(address), None, Origin::Client);
            CallEntry { number: 1, at: SystemTime::now(), record: CallRecord { outcome, ..record } }
        };
        let calls =
            [call("10.0.0.1", Outcome::Ok), call("10.0.0.2", Outcome::Denied), call("10.0.0.2", Outcome::Ok)];
        let shown = callers(calls.iter());
        let shown: Vec<_> = shown.iter().map(|it| (it.who.as_str(), it.calls, it.failed)).collect();
        assert_eq!(shown, [("10.0.0.2", 2, 1), ("10.0.0.1", 1, 0)]);
    }

    #[test]
    fn callers_of_one_name_at_two_issuers_are_two() {
        let call = |issuer: &str| {
            let identity = Identity::known(issuer, "ci", serde_json::Map::new(), None);
            let record = CallRecord::begin(Principal::from(identity), None, Origin::Client);
            CallEntry { number: 1, at: SystemTime::now(), record }
        };
        let shown = callers([call("https://a"), call("https://b"), call("https://b")].iter());
        let shown: Vec<_> = shown.iter().map(|it| (it.issuer.as_str(), it.who.as_str(), it.calls)).collect();
        assert_eq!(shown, [("https://b", "ci", 2), ("https://a", "ci", 1)]);
    }
}
