//! The data of the page about clients: figures, limits, replicas and callers.

use axum::Extension;
use axum::extract::State;
use axum::response::Html;
use vmcp_config::Server;
use vmcp_console::pages::clients::{Clients, Limit, clients as clients_page};
use vmcp_console::text;
use vmcp_engine::metrics::{Metrics, ShareState};

use super::client_query::ClientQuery;
use crate::port::console::access::{ConsoleDoor, Visitor};
use crate::port::console::answer::replicas;
use crate::port::console::overview::replica_activity::{callers, of_others, own};

/// Answers `GET /console/clients`.
pub(in crate::port::console) async fn show(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
) -> Html<String> {
    let engine = door.engine();
    let (snapshot, metrics) = (engine.snapshot(), engine.metrics());
    let others = of_others(&door).await;
    let of_all = others.answers.into_iter().flat_map(|other| other.answer.callers);
    let of_all = own(door.admin()).callers.into_iter().chain(of_all);
    let statuses = engine.backend_status();
    let sessions = statuses.into_iter().filter(|status| status.sessions > 0);
    let data = Clients {
        figures: figures(metrics),
        limits: limits(&snapshot.config.server, metrics),
        callers: callers(of_all).into_iter().map(Into::into).collect(),
        replicas: replicas(others.census),
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
