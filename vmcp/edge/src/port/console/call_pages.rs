//! The data of the pages about calls, of all replicas.

mod cursor;
pub(super) mod replica_calls;

use std::time::SystemTime;

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::{HeaderName, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use vmcp_console::pages::calls::{
    Call, Calls, MAX_TIMELINE, PROFILE, TimedCall, call as call_page, calls as calls_page, rows as call_rows,
};
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::replicas::Waiting;
use vmcp_engine::telemetry::calls::{CallRecord, Origin};
use vmcp_engine::telemetry::recent::{CallEntry, TracedCall};

use self::replica_calls::{CallsQuery, OneCall, find, find_one};
use super::access::{ConsoleDoor, Visitor};

/// Header with the place to go on behind.
const NEXT: HeaderName = HeaderName::from_static("x-next");
/// Header with the replicas that gave no answer in time.
const MISSING: HeaderName = HeaderName::from_static("x-missing-replicas");
/// Name of the fact with the W3C trace id of a call.
const TRACE: &str = "Trace";

/// Answers `GET /console/calls`.
pub(super) async fn list(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<CallsQuery>,
) -> Html<String> {
    let found = find(&door, &query.of_all_kept(), Waiting::Page).await;
    let data = Calls {
        filter: query.filter(),
        calls: found.calls,
        after: found.cursor.to_string(),
        outcomes: found.outcomes.into_iter().collect(),
        replicas: found.replicas,
    };
    Html(calls_page(&door.frame(&visitor), &data))
}

/// Answers `GET /console/calls/rows`: the rows of newer calls, for the script, and the replicas whose rows
/// are missing.
pub(super) async fn rows(State(door): State<ConsoleDoor>, Query(query): Query<CallsQuery>) -> Response {
    let found = find(&door, &query, Waiting::Rows).await;
    let rows = call_rows(&found.calls, found.replicas.is_some());
    let missing = found.replicas.map(|replicas| replicas.unreachable.join(", ")).unwrap_or_default();
    ([(NEXT, found.cursor.to_string()), (MISSING, missing)], Html(rows.into_string())).into_response()
}

/// Answers `GET /console/call`.
pub(super) async fn one(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<OneCall>,
) -> Response {
    let Some(call) = find_one(&door, &query).await else {
        let words = "this call is not kept: each process keeps its latest 1000 calls, and the replica that made it \
                     must answer\n";
        return (StatusCode::NOT_FOUND, words).into_response();
    };
    let template = door.engine().snapshot().config.telemetry.trace_url.clone();
    let trace = call.facts.iter().find(|(name, id)| name == TRACE && !id.is_empty());
    let trace_address = trace.and_then(|(_, id)| Some(template?.of(id)));
    // A viewer reads no text of people: arguments are as in audit events.
    let arguments = call.arguments.clone().filter(|_| !visitor.is_viewer());
    Html(call_page(&door.frame(&visitor), &Call { trace_address, arguments, ..call })).into_response()
}

fn shown(number: u64, CallEntry { at, record, .. }: &CallEntry) -> Call {
    let tool = record.tool.as_ref().map(|tool| tool.name.as_str());
    Call {
        number,
        at: humantime::format_rfc3339_millis(*at).to_string(),
        who: caller(&record.principal),
        issuer: issuer(&record.principal),
        via: record.origin.own_tool().unwrap_or_default().to_owned(),
        method: record.method.clone().into_owned(),
        server: record.backend.as_deref().unwrap_or_default().to_owned(),
        item: tool.or(record.subject.as_deref()).unwrap_or_default().to_owned(),
        outcome: record.outcome.label().to_owned(),
        took_ms: record.took.as_secs_f64() * 1e3,
        server_ms: record.backend_took.as_secs_f64() * 1e3,
        bytes_in: record.bytes_in,
        bytes_out: record.bytes_out,
        ..Call::default()
    }
}

/// Returns the calls of a trace by the time of their begin.
fn timeline(calls: Vec<TracedCall>) -> Vec<TimedCall> {
    // A text of this process can be read.
    let begun = |call: &TracedCall| humantime::parse_rfc3339(&call.begun).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut calls: Vec<_> = calls.into_iter().map(|call| (begun(&call), call)).collect();
    calls.sort_by_key(|(begun, call)| (*begun, call.within));
    let Some(earliest) = calls.first().map(|(begun, _)| *begun) else { return Vec::new() };
    let timed = |(begun, call): (SystemTime, TracedCall)| TimedCall {
        number: call.call.id.unwrap_or_default(),
        item: call.call.item.or(call.call.via).unwrap_or(call.call.method),
        server: call.call.backend.unwrap_or_default(),
        is_within: call.within,
        begin_ms: begun.duration_since(earliest).unwrap_or_default().as_secs_f64() * 1e3,
        took_ms: call.call.took_ms,
        server_ms: call.backend_ms,
    };
    calls.into_iter().take(MAX_TIMELINE).map(timed).collect()
}

/// Returns the name of a caller: the subject of its identity, or its address.
pub(super) fn caller(principal: &Principal) -> String {
    let address = principal.address.filter(|_| principal.identity.as_known().is_none());
    address.map_or_else(|| principal.identity.subject().to_owned(), |address| address.to_string())
}

/// Returns the issuer that vouches for a caller; empty for an address.
pub(super) fn issuer(principal: &Principal) -> String {
    principal.identity.as_known().map(|known| known.issuer().to_owned()).unwrap_or_default()
}

/// Returns the way of a call that vmcp made by itself; empty for a call of the client.
fn way(origin: Origin) -> &'static str {
    match origin {
        Origin::Fallback => "a similar tool in place of a failed one",
        Origin::Step => "a step of a composite tool",
        Origin::Script => "a call of a script",
        Origin::Internal => "a call of vmcp itself",
        Origin::Client | Origin::FindTool | Origin::CallTool | Origin::Own(_) => "",
    }
}

/// Says between which eras request and answer were translated; empty if they were not.
fn translation(record: &CallRecord) -> String {
    match (record.client_era, record.backend_era) {
        (Some(client), Some(server)) if client != server => format!("{client} to {server}, and back"),
        _ => String::new(),
    }
}

/// Returns the further facts of one call. A session id is a credential, and the words of an error may quote
/// arguments: neither is among them.
fn facts(record: &CallRecord) -> Vec<(String, String)> {
    let webhooks: Vec<_> =
        record.webhooks.iter().map(|effect| format!("{}: {}", effect.webhook, effect.effect)).collect();
    let profile = record.principal.profile.as_deref().unwrap_or_default();
    let operator = record.principal.operator.as_deref().unwrap_or_default();
    let facts = [
        ("Called on behalf of the caller by", operator.to_owned()),
        (TRACE, record.trace.map(hex::encode).unwrap_or_default()),
        (PROFILE, profile.to_owned()),
        ("Made as", way(record.origin).to_owned()),
        ("Era of the client", record.client_era.map(|era| era.to_string()).unwrap_or_default()),
        ("Era of the server", record.backend_era.map(|era| era.to_string()).unwrap_or_default()),
        ("Translated", translation(record)),
        ("Requests to the server", record.requests.to_string()),
        ("Reached the server", record.transmission.as_str().to_owned()),
        ("Code of its error", record.error_code.map(|code| code.to_string()).unwrap_or_default()),
        (
            "Decided by the policy",
            record.policy.as_ref().map(|it| it.as_str().to_owned()).unwrap_or_default(),
        ),
        ("Version of the policies", record.policy_version.as_deref().unwrap_or_default().to_owned()),
        ("Webhooks", webhooks.join(", ")),
        ("Waits for", if record.pending { "an answer or a task".to_owned() } else { String::new() }),
    ];
    facts.map(|(name, value)| (name.to_owned(), value)).into()
}
