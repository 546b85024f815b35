//! An audit event as JSON. Its members are those of ToolHive's events, so that the same queries read both;
//! what is vmcp's own is in `metadata.extra`.

pub(super) mod queued_event;

use std::borrow::Cow;
use std::time::SystemTime;

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;
use vmcp_config::sanitize::escape_unseen;
use vmcp_wire::methods;

use super::event_id;
use super::field::{Members, clip, hex_text};
use crate::access::identity::Principal;
use crate::telemetry::calls::{Action, CallRecord, Outcome, Refusal};

/// Bytes of an event without arguments, rounded up.
const USUAL_BYTES: usize = 1024;
/// Key under which an action hands its actor to the event.
const ACTOR: &str = "actor";

/// Members that all events have.
pub(super) struct EventContext<'a> {
    pub(super) kind: &'static str,
    pub(super) component: &'a str,
    /// Version of the policies in force, for events that no decision of a policy precedes.
    pub(super) policy_version: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    metadata: Metadata<'a>,
    #[serde(rename = "type")]
    kind: &'static str,
    logged_at: String,
    source: Source,
    outcome: &'static str,
    subjects: Members<'a>,
    component: &'a str,
    target: Members<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Data<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    audit_id: Uuid,
    extra: Extra<'a>,
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct Extra<'a> {
    decision: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Cow<'a, str>>,
    /// SHA-256 of the policies in force.
    policy_version: &'a str,
    /// Webhooks that had an effect on the call: its name, a colon and the effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    webhooks: Vec<String>,
    /// SHA-256 of the arguments, as the policy saw them.
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments_sha256: Option<String>,
    /// The outcome, or the reason of a refusal, in vmcp's own words.
    result: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// The id of a composite tool's run: of the run itself, and of its steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_in: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_out: Option<u64>,
    /// Refusals of the same kind since the event before, which have no event of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
}

#[derive(Serialize)]
struct Source {
    #[serde(rename = "type")]
    kind: &'static str,
    value: String,
}

#[derive(Serialize)]
struct Data<'a> {
    /// Arguments of the call: JSON, or the beginning of its text. Encoded again: the client's text may have
    /// line ends.
    request: Arguments<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Arguments<'a> {
    Whole(Value),
    Cut(&'a str),
}

/// Returns the type of events about a method.
pub(super) fn kind_of(method: &str) -> &'static str {
    match method {
        methods::TOOLS_CALL => "mcp_tool_call",
        methods::RESOURCES_READ => "mcp_resource_read",
        methods::PROMPTS_GET => "mcp_prompt_get",
        methods::COMPLETE => "mcp_completion",
        "http" => "http_request",
        _ => "mcp_request",
    }
}

/// Encodes the event of a call that has ended.
pub(super) fn of_call(
    context: &EventContext<'_>,
    record: &CallRecord,
    left_out: u64,
) -> serde_json::Result<String> {
    let (decision, outcome) = decision_of(record.outcome);
    of_record(context, record, [decision, outcome, record.outcome.label()], left_out)
}

/// Encodes the event of a call that is allowed and about to be sent.
pub(super) fn of_begin(context: &EventContext<'_>, record: &CallRecord) -> serde_json::Result<String> {
    of_record(context, record, ["allowed", "begun", "begun"], 0)
}

/// True for a call that was not let through.
pub(super) fn is_denial(record: &CallRecord) -> bool {
    decision_of(record.outcome).1 == "denied"
}

/// Returns the decision about a call, and how it ended in ToolHive's words.
fn decision_of(outcome: Outcome) -> (&'static str, &'static str) {
    match outcome {
        Outcome::Denied => ("denied", "denied"),
        Outcome::Failed("unknown") => ("refused", "denied"),
        Outcome::Ok => ("allowed", "success"),
        Outcome::ToolError | Outcome::RpcError => ("allowed", "application_error"),
        Outcome::Cancelled => ("allowed", "failure"),
        Outcome::Failed("rate_limited") => ("limited", "denied"),
        Outcome::Failed("not_confirmed") => ("unconfirmed", "denied"),
        Outcome::Failed("withheld") => ("withheld", "error"),
        Outcome::Failed("insufficient_scope") => ("insufficient_scope", "denied"),
        Outcome::Failed(_) => ("allowed", "error"),
    }
}

fn of_record(
    context: &EventContext<'_>,
    record: &CallRecord,
    [decision, outcome, result]: [&'static str; 3],
    left_out: u64,
) -> serde_json::Result<String> {
    let called = record.tool.as_ref().map(|tool| tool.name.as_str()).or(record.subject.as_deref());
    let via = record.origin.own_tool();
    let mut target = target(&record.method, called.or(via));
    if let (Some(via), Some(_)) = (via, called) {
        target.insert("via", via.into());
    }
    if let Some(backend) = record.backend.as_deref() {
        target.insert("backend", clip(backend));
    }
    let extra = Extra {
        decision,
        policy: record.policy.as_ref().map(|policy| clip(policy.as_str())),
        policy_version: record.policy_version.as_deref().unwrap_or(context.policy_version),
        webhooks: record.webhooks.iter().map(|one| format!("{}: {}", one.webhook, one.effect)).collect(),
        arguments_sha256: record.arguments_digest.map(|bytes| hex_text(&bytes)),
        result: result.into(),
        session: record.session.map(|bytes| hex_text(&bytes)),
        run: record.run.as_deref().map(clip),
        trace_id: record.trace.map(|bytes| hex_text(&bytes)),
        latency_ms: Some(record.took.as_secs_f64() * 1e3),
        requests: Some(record.requests),
        bytes_in: Some(record.bytes_in),
        bytes_out: Some(record.bytes_out),
        left_out: Some(left_out).filter(|count| *count > 0),
    };
    let data = record.arguments.as_ref().map(|arguments| Data {
        request: match serde_json::from_str(&arguments.text) {
            Ok(whole) if !arguments.truncated => Arguments::Whole(whole),
            _ => Arguments::Cut(&arguments.text),
        },
        truncated: arguments.truncated,
    });
    line(context, &record.principal, outcome, target, extra, data)
}

/// Encodes the event of a request that was refused before it became a call.
pub(super) fn of_refusal(
    context: &EventContext<'_>,
    refusal: &Refusal<'_>,
    left_out: u64,
) -> serde_json::Result<String> {
    let extra = Extra {
        decision: "refused",
        policy_version: context.policy_version,
        result: clip(refusal.reason),
        session: refusal.session.map(|bytes| hex_text(&bytes)),
        trace_id: refusal.trace.map(|bytes| hex_text(&bytes)),
        left_out: Some(left_out).filter(|count| *count > 0),
        ..Extra::default()
    };
    let target = target(refusal.method.unwrap_or_default(), refusal.subject);
    line(context, refusal.principal, "denied", target, extra, None)
}

/// Encodes the event of an action beside calls.
pub(super) fn of_action(
    context: &EventContext<'_>,
    action: &Action<'_>,
    left_out: u64,
) -> serde_json::Result<String> {
    let extra = Extra {
        decision: if action.is_refused { "refused" } else { "allowed" },
        policy_version: context.policy_version,
        result: clip(action.result),
        session: action.session.map(|bytes| hex_text(&bytes)),
        left_out: Some(left_out).filter(|count| *count > 0),
        ..Extra::default()
    };
    let mut target = target(action.name, action.target);
    if let Some(actor) = action.actor {
        target.insert(ACTOR, clip(actor));
    }
    let outcome = if action.is_refused {
        "denied"
    } else if action.result == Action::CANCELLED {
        "failure"
    } else {
        "success"
    };
    line(context, action.principal, outcome, target, extra, None)
}

fn target<'a>(method: &'a str, name: Option<&'a str>) -> Members<'a> {
    let mut target = Members::default();
    for (key, value) in [("method", Some(method).filter(|method| !method.is_empty())), ("name", name)] {
        if let Some(value) = value {
            target.insert(key, clip(value));
        }
    }
    target
}

fn line<'a>(
    context: &EventContext<'a>,
    principal: &'a Principal,
    outcome: &'static str,
    mut target: Members<'a>,
    extra: Extra<'a>,
    data: Option<Data<'a>>,
) -> serde_json::Result<String> {
    let mut subjects = Members::default();
    subjects.insert("user", target.remove(ACTOR).unwrap_or_else(|| clip(principal.identity.subject())));
    if let Some(known) = principal.identity.as_known() {
        subjects.insert("issuer", clip(known.issuer()));
        let name = |claim| known.claims().get(claim).and_then(Value::as_str);
        if let Some(name) = name("preferred_username").or_else(|| name("email")) {
            subjects.insert("name", clip(name));
        }
        if let Some(client) = name("client_id").or_else(|| name("azp")) {
            subjects.insert("client", clip(client));
        }
    }
    let source = match principal.address {
        Some(address) => Source { kind: "network", value: address.to_canonical().to_string() },
        None => Source { kind: "local", value: "stdio".to_owned() },
    };
    let event = Event {
        metadata: Metadata { audit_id: event_id::next(), extra },
        kind: context.kind,
        logged_at: humantime::format_rfc3339_micros(SystemTime::now()).to_string(),
        source,
        outcome,
        subjects,
        component: context.component,
        target,
        data,
    };
    let mut json = Vec::with_capacity(USUAL_BYTES);
    serde_json::to_writer(&mut json, &event)?;
    // JSON is UTF-8.
    Ok(escape_unseen(String::from_utf8(json).unwrap_or_default()))
}
