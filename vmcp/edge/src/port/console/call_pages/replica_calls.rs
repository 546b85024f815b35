//! Calls of this process as other replicas ask for them, and the calls of all replicas.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Json;
use serde::{Deserialize, Serialize};
use url::form_urlencoded::Serializer;
use vmcp_console::links::EXACT;
use vmcp_console::pages::calls::{Call, CallFilter};
use vmcp_console::pages::clients::Replicas;
use vmcp_engine::engine::replicas::{OfReplica, OtherReplicas, Waiting};
use vmcp_engine::telemetry::calls::RecordedArguments;
use vmcp_engine::telemetry::recent::WantedCall;

use super::cursor::Cursor;
use super::{facts, shown, timeline};
use crate::port::admin::Admin;
use crate::port::console::access::ConsoleDoor;
use crate::port::console::answer::{indented, replicas};

/// Most calls on a page, and of one replica: all that the processes keep would be a page of a megabyte.
const MAX_SHOWN: usize = 300;

/// The query `?tool=TEXT&who=TEXT&server=NAME&outcome=WORD&exact=1&after=CURSOR`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::port::console) struct CallsQuery {
    tool: String,
    who: String,
    server: String,
    outcome: String,
    /// `1`: `tool` and `who` are whole names.
    exact: String,
    /// Place to go on behind, a [`Cursor`].
    after: String,
}

/// The query `?number=NUMBER&replica=ID`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::port::console) struct OneCall {
    number: u64,
    /// Id of the replica that made the call; empty: this process.
    replica: String,
}

/// The calls of one replica that fit a query.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::port::console) struct ReplicaCalls {
    /// Number to go on behind.
    next: u64,
    /// Outcomes of all calls behind the wanted number, also of calls that do not fit.
    outcomes: BTreeSet<String>,
    /// The calls, the newest first; at most [`MAX_SHOWN`].
    calls: Vec<Call>,
}

/// The calls of all replicas that fit a query.
pub(super) struct FoundCalls {
    /// The calls, the newest first; at most [`MAX_SHOWN`].
    pub(super) calls: Vec<Call>,
    /// Place to go on behind.
    pub(super) cursor: Cursor,
    /// Outcomes of the calls.
    pub(super) outcomes: BTreeSet<String>,
    /// The replicas that were asked.
    pub(super) replicas: Option<Replicas>,
}

/// Answers `GET /admin/replica/calls`.
pub(in crate::port::console) async fn serve_calls(
    State(admin): State<Admin>,
    Query(query): Query<CallsQuery>,
) -> Json<OfReplica<ReplicaCalls>> {
    let replica = admin.0.engine.replica_id().to_owned();
    Json(OfReplica { replica, answer: own_calls(&admin, &query) })
}

/// Answers `GET /admin/replica/call`, where `replica` names this process; null elsewhere.
pub(in crate::port::console) async fn serve_call(
    State(admin): State<Admin>,
    Query(OneCall { number, replica }): Query<OneCall>,
) -> Json<OfReplica<Option<Call>>> {
    let own = admin.0.engine.replica_id().to_owned();
    let answer = if replica == own { own_call(&admin, number) } else { None };
    Json(OfReplica { replica: own, answer })
}

/// Returns the calls of all replicas that fit a query. The cursor stays before the calls of a replica without
/// an answer: they come with a later one.
pub(super) async fn find(door: &ConsoleDoor, query: &CallsQuery, waiting: Waiting) -> FoundCalls {
    let path = query.path();
    let others: OtherReplicas<ReplicaCalls> = door.engine().ask_other_replicas(&path, waiting).await;
    let mut found = FoundCalls {
        calls: Vec::new(),
        cursor: Cursor::parse(&query.after),
        outcomes: BTreeSet::new(),
        replicas: replicas(others.census),
    };
    for other in others.answers {
        let address = other.address.to_string();
        let of =
            |call: Call| Call { replica: other.replica.clone(), replica_address: address.clone(), ..call };
        found.calls.extend(other.answer.calls.into_iter().map(of));
        found.outcomes.extend(other.answer.outcomes);
        found.cursor.set(other.replica, other.answer.next);
    }
    let own = own_calls(door.admin(), query);
    found.calls.extend(own.calls);
    found.outcomes.extend(own.outcomes);
    found.cursor.set(door.engine().replica_id().to_owned(), own.next);
    // RFC 3339 with three digits of a second: the order of texts is that of times.
    found.calls.sort_by(|one, other| other.at.cmp(&one.at));
    found.calls.truncate(MAX_SHOWN);
    found
}

/// Returns one call of any replica, with its facts; `None` if it is not kept, or its replica does not answer.
pub(super) async fn find_one(door: &ConsoleDoor, OneCall { number, replica }: &OneCall) -> Option<Call> {
    if replica.is_empty() || *replica == *door.engine().replica_id() {
        return own_call(door.admin(), *number);
    }
    let path = path_of_call(*number, replica);
    let others: OtherReplicas<Option<Call>> = door.engine().ask_other_replicas(&path, Waiting::Thing).await;
    let other = others.answers.into_iter().find(|other| other.replica == *replica)?;
    let address = other.address.to_string();
    Some(Call { replica: other.replica, replica_address: address, ..other.answer? })
}

fn own_calls(Admin(inner): &Admin, query: &CallsQuery) -> ReplicaCalls {
    let after = Cursor::parse(&query.after).of(inner.engine.replica_id());
    let mut kept = inner.calls.entries(after);
    if kept.next < after {
        // The numbers are of this process before its restart.
        kept = inner.calls.entries(0);
    }
    let filter = query.filter();
    let outcomes = kept.entries.iter().map(|(_, entry)| entry.record.outcome.label().to_owned()).collect();
    let calls = kept.entries.iter().rev().map(|(number, entry)| shown(*number, entry));
    let calls = calls.filter(|call| filter.admits(call)).take(MAX_SHOWN).collect();
    ReplicaCalls { next: kept.next, outcomes, calls }
}

/// Returns arguments as a page shows them.
fn written(RecordedArguments { text, truncated }: &RecordedArguments) -> String {
    if *truncated { format!("{text}…") } else { indented(text) }
}

fn own_call(Admin(inner): &Admin, number: u64) -> Option<Call> {
    let kept = inner.calls.entries(number).entries;
    let (_, entry) = kept.first().filter(|(first, _)| *first == number)?;
    let wanted = entry.record.trace.map_or(WantedCall::Number(number), WantedCall::Trace);
    let timeline = timeline(inner.calls.traced(&wanted));
    let config = Arc::clone(&inner.engine.snapshot().config);
    let record = &entry.record;
    // Kept arguments stay hidden once audit events have none.
    let is_audited = config.audit.as_ref().is_some_and(|audit| audit.argument_bytes.is_some());
    let arguments = record.arguments.as_ref().filter(|_| is_audited).map(written);
    let mut facts = facts(record);
    let server = record.backend.as_deref().unwrap_or_default();
    if let Some(spec) = config.backends.iter().find(|spec| *spec.name == *server) {
        facts.push(("Credentials at the server".to_owned(), spec.credentials.kind().to_owned()));
    }
    Some(Call { facts, timeline, arguments, ..shown(number, entry) })
}

impl CallsQuery {
    pub(super) fn filter(&self) -> CallFilter {
        CallFilter {
            tool: self.tool.clone(),
            who: self.who.clone(),
            server: self.server.clone(),
            outcome: self.outcome.clone(),
            exact: self.exact == EXACT.1,
        }
    }

    /// Returns the query for all kept calls.
    pub(super) fn of_all_kept(&self) -> CallsQuery {
        CallsQuery { after: String::new(), ..self.clone() }
    }

    /// Returns the path at which other replicas answer the same query.
    fn path(&self) -> String {
        let CallsQuery { tool, who, server, outcome, exact, after } = self;
        let pairs = [
            ("tool", tool),
            ("who", who),
            ("server", server),
            ("outcome", outcome),
            ("exact", exact),
            ("after", after),
        ];
        let mut query = Serializer::new(String::new());
        query.extend_pairs(pairs);
        format!("/admin/replica/calls?{}", query.finish())
    }
}

fn path_of_call(number: u64, replica: &str) -> String {
    let mut query = Serializer::new(String::new());
    query.append_pair("number", &number.to_string()).append_pair("replica", replica);
    format!("/admin/replica/call?{}", query.finish())
}
