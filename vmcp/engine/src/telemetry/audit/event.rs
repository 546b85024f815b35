//! An audit event as JSON. Its members are those of ToolHive's events, so that the same queries read both;
//! what is vmcp's own is in `metadata.extra`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;
use vmcp_wire::methods;

use crate::access::identity::Principal;
use crate::access::policy::PolicyId;
use crate::telemetry::calls::{CallRecord, Outcome, Refusal};

/// Members that all events have.
pub(super) struct EventContext<'a> {
    pub(super) kind: &'static str,
    pub(super) component: &'a str,
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
    subjects: BTreeMap<&'static str, &'a str>,
    component: &'a str,
    target: BTreeMap<&'static str, &'a str>,
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
    policy: Option<&'a str>,
    /// The outcome, or the reason of a refusal, in vmcp's own words.
    result: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
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
        _ => "mcp_request",
    }
}

/// Encodes the event of a call, with its line end.
pub(super) fn of_call(context: &EventContext<'_>, record: &CallRecord) -> serde_json::Result<Vec<u8>> {
    let (decision, outcome) = match record.outcome {
        Outcome::Denied => ("denied", "denied"),
        Outcome::Ok => ("allowed", "success"),
        Outcome::ToolError | Outcome::RpcError => ("allowed", "application_error"),
        Outcome::Cancelled => ("allowed", "failure"),
        Outcome::Failed("rate_limited") => ("limited", "denied"),
        Outcome::Failed("not_confirmed") => ("unconfirmed", "denied"),
        Outcome::Failed(_) => ("allowed", "error"),
    };
    let called = record.tool.as_ref().map(|tool| tool.name.as_str()).or(record.subject.as_deref());
    let via = record.origin.own_tool();
    let mut target = target(&record.method, called.or(via));
    if let (Some(via), Some(_)) = (via, called) {
        target.insert("via", via);
    }
    if let Some(backend) = record.backend.as_deref() {
        target.insert("backend", backend);
    }
    let extra = Extra {
        decision,
        policy: record.policy.as_ref().map(PolicyId::as_str),
        result: record.outcome.label().into(),
        session: record.session.map(hex::encode),
        trace_id: record.trace.map(hex::encode),
        latency_ms: Some(record.took.as_secs_f64() * 1e3),
        requests: Some(record.requests),
        bytes_in: Some(record.bytes_in),
        bytes_out: Some(record.bytes_out),
        left_out: None,
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

/// Encodes the event of a request that was no call, with its line end.
pub(super) fn of_refusal(context: &EventContext<'_>, refusal: &Refusal<'_>) -> serde_json::Result<Vec<u8>> {
    let extra = Extra {
        decision: "refused",
        result: refusal.reason.into(),
        session: refusal.session.map(hex::encode),
        trace_id: refusal.trace.map(hex::encode),
        left_out: Some(refusal.left_out).filter(|count| *count > 0),
        ..Extra::default()
    };
    let target = target(refusal.method.unwrap_or_default(), refusal.subject);
    line(context, refusal.principal, "denied", target, extra, None)
}

fn target<'a>(method: &'a str, name: Option<&'a str>) -> BTreeMap<&'static str, &'a str> {
    let parts = [("method", Some(method).filter(|method| !method.is_empty())), ("name", name)];
    parts.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

fn line(
    context: &EventContext<'_>,
    principal: &Principal,
    outcome: &'static str,
    target: BTreeMap<&'static str, &str>,
    extra: Extra<'_>,
    data: Option<Data<'_>>,
) -> serde_json::Result<Vec<u8>> {
    let mut subjects = BTreeMap::from([("user", principal.identity.subject())]);
    if let Some(known) = principal.identity.as_known() {
        subjects.insert("issuer", known.issuer());
        let name = |claim| known.claims().get(claim).and_then(Value::as_str);
        if let Some(name) = name("preferred_username").or_else(|| name("email")) {
            subjects.insert("name", name);
        }
        if let Some(client) = name("client_id").or_else(|| name("azp")) {
            subjects.insert("client", client);
        }
    }
    let source = match principal.address {
        Some(address) => Source { kind: "network", value: address.to_canonical().to_string() },
        None => Source { kind: "local", value: "stdio".to_owned() },
    };
    let event = Event {
        metadata: Metadata { audit_id: Uuid::new_v4(), extra },
        kind: context.kind,
        logged_at: humantime::format_rfc3339_micros(SystemTime::now()).to_string(),
        source,
        outcome,
        subjects,
        component: context.component,
        target,
        data,
    };
    let mut line = serde_json::to_vec(&event)?;
    line.push(b'\n');
    Ok(line)
}
