//! An audit event as JSON. Its members are those of ToolHive's events, so that the same queries read both;
//! what is vmcp's own is in `metadata.extra`.

mod json_text;
pub(super) mod queued_event;
#[cfg(test)]
mod tests;

use std::time::SystemTime;

use serde_json::Value;
use uuid::Uuid;
use uuid::fmt::Hyphenated;
use vmcp_access::identity::KnownIdentity;
use vmcp_backend::SessionId;
use vmcp_wire::methods;

use self::json_text::{
    push_address, push_field, push_fraction, push_hex_member, push_integer, push_object, push_string,
    push_time, push_value,
};
use super::event_id;
use crate::access::identity::Principal;
use crate::access::policy::PolicyId;
use crate::telemetry::calls::{Action, CallRecord, Outcome, RecordedArguments, Refusal, WebhookEffect};

/// Bytes of an event without arguments, rounded up.
const USUAL_BYTES: usize = 1024;

/// Members that all events have.
pub(super) struct EventContext<'a> {
    pub(super) kind: &'static str,
    pub(super) component: &'a str,
    /// Version of the policies in force, for events that no decision of a policy precedes.
    pub(super) policy_version: &'a str,
}

/// The facts of an event, still without id and time.
#[derive(Debug, Clone, Copy)]
struct EventFacts<'a> {
    kind: &'static str,
    component: &'a str,
    decision: &'static str,
    outcome: &'static str,
    policy: Option<&'a str>,
    /// SHA-256 of the policies in force.
    policy_version: &'a str,
    /// Webhooks that had an effect on the call.
    webhooks: &'a [WebhookEffect],
    /// SHA-256 of the arguments, as the policy saw them.
    arguments_digest: Option<&'a [u8; 32]>,
    /// The outcome, or the reason of a refusal, in vmcp's own words.
    result: &'a str,
    session: Option<&'a SessionId>,
    /// The id of a composite tool's run: of the run itself, and of its steps.
    run: Option<&'a str>,
    trace: Option<&'a [u8; 16]>,
    figures: Option<CallFigures>,
    /// Refusals of the same kind since the event before, which have no event of their own.
    left_out: u64,
    principal: &'a Principal,
    /// Named in place of the principal.
    actor: Option<&'a str>,
    method: &'a str,
    name: Option<&'a str>,
    via: Option<&'static str>,
    backend: Option<&'a str>,
    arguments: Option<&'a RecordedArguments>,
}

/// Figures of a call.
#[derive(Debug, Clone, Copy)]
struct CallFigures {
    latency_ms: f64,
    requests: u32,
    bytes_in: u64,
    bytes_out: u64,
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

/// Writes the event of a call that has ended.
pub(super) fn of_call(context: &EventContext<'_>, record: &CallRecord, left_out: u64, json: &mut Vec<u8>) {
    let (decision, outcome) = decision_of(record.outcome);
    let facts = EventFacts::of_record(context, record, [decision, outcome, record.outcome.label()]);
    EventFacts { left_out, ..facts }.write(json);
}

/// Writes the event of a call that is allowed and about to be sent.
pub(super) fn of_begin(context: &EventContext<'_>, record: &CallRecord, json: &mut Vec<u8>) {
    EventFacts::of_record(context, record, ["allowed", "begun", "begun"]).write(json);
}

/// Writes the event of a request that was refused before it became a call.
pub(super) fn of_refusal(
    context: &EventContext<'_>,
    refusal: &Refusal<'_>,
    left_out: u64,
    json: &mut Vec<u8>,
) {
    EventFacts { left_out, ..EventFacts::of_refusal(context, refusal) }.write(json);
}

/// Writes the event of an action beside calls.
pub(super) fn of_action(context: &EventContext<'_>, action: &Action<'_>, left_out: u64, json: &mut Vec<u8>) {
    EventFacts { left_out, ..EventFacts::of_action(context, action) }.write(json);
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

impl<'a> EventFacts<'a> {
    /// The facts of every event; the others are to be filled in.
    fn begin(context: &EventContext<'a>, principal: &'a Principal, outcome: &'static str) -> EventFacts<'a> {
        EventFacts {
            kind: context.kind,
            component: context.component,
            decision: "allowed",
            outcome,
            policy: None,
            policy_version: context.policy_version,
            webhooks: &[],
            arguments_digest: None,
            result: "",
            session: None,
            run: None,
            trace: None,
            figures: None,
            left_out: 0,
            principal,
            actor: None,
            method: "",
            name: None,
            via: None,
            backend: None,
            arguments: None,
        }
    }

    fn of_record(
        context: &EventContext<'a>,
        record: &'a CallRecord,
        [decision, outcome, result]: [&'static str; 3],
    ) -> EventFacts<'a> {
        let called = record.tool.as_ref().map(|tool| tool.name.as_str()).or(record.subject.as_deref());
        let via = record.origin.own_tool();
        EventFacts {
            decision,
            policy: record.policy.as_ref().map(PolicyId::as_str),
            policy_version: record.policy_version.as_deref().unwrap_or(context.policy_version),
            webhooks: &record.webhooks,
            arguments_digest: record.arguments_digest.as_ref(),
            result,
            session: record.session.as_ref(),
            run: record.run.as_deref(),
            trace: record.trace.as_ref(),
            figures: Some(CallFigures {
                latency_ms: record.took.as_secs_f64() * 1e3,
                requests: record.requests,
                bytes_in: record.bytes_in,
                bytes_out: record.bytes_out,
            }),
            method: &record.method,
            name: called.or(via),
            via: via.filter(|_| called.is_some()),
            backend: record.backend.as_deref(),
            arguments: record.arguments.as_ref(),
            ..EventFacts::begin(context, &record.principal, outcome)
        }
    }

    fn of_refusal(context: &EventContext<'a>, refusal: &'a Refusal<'a>) -> EventFacts<'a> {
        EventFacts {
            decision: "refused",
            result: refusal.reason,
            session: refusal.session.as_ref(),
            trace: refusal.trace.as_ref(),
            method: refusal.method.unwrap_or_default(),
            name: refusal.subject,
            ..EventFacts::begin(context, refusal.principal, "denied")
        }
    }

    fn of_action(context: &EventContext<'a>, action: &'a Action<'a>) -> EventFacts<'a> {
        let (decision, outcome) = if action.is_refused {
            ("refused", "denied")
        } else if action.result == Action::CANCELLED {
            ("allowed", "failure")
        } else {
            ("allowed", "success")
        };
        EventFacts {
            decision,
            result: action.result,
            session: action.session.as_ref(),
            actor: action.actor,
            method: action.name,
            name: action.target,
            ..EventFacts::begin(context, action.principal, outcome)
        }
    }

    /// Appends the event, under another id and with the present time.
    fn write(&self, json: &mut Vec<u8>) {
        self.write_as(event_id::next(), SystemTime::now(), json);
    }

    fn write_as(&self, id: Uuid, logged_at: SystemTime, json: &mut Vec<u8>) {
        json.reserve(USUAL_BYTES);
        json.extend_from_slice(br#"{"metadata":{"auditId":""#);
        json.extend_from_slice(id.hyphenated().encode_lower(&mut [0; Hyphenated::LENGTH]).as_bytes());
        self.push_extra(json);
        // Words of vmcp's own need no escape: the type, the outcome and the decision.
        json.extend_from_slice(br#"},"type":""#);
        json.extend_from_slice(self.kind.as_bytes());
        json.extend_from_slice(br#"","loggedAt":""#);
        push_time(json, logged_at);
        if let Some(address) = self.principal.address {
            json.extend_from_slice(br#"","source":{"type":"network","value":""#);
            push_address(json, address);
            json.extend_from_slice(br#""},"outcome":""#);
        } else {
            json.extend_from_slice(br#"","source":{"type":"local","value":"stdio"},"outcome":""#);
        }
        json.extend_from_slice(self.outcome.as_bytes());
        self.push_subjects(json);
        json.extend_from_slice(br#","component":"#);
        push_string(json, self.component);
        json.extend_from_slice(br#","target":"#);
        let method = Some(self.method).filter(|method| !method.is_empty());
        let target = [("method", method), ("name", self.name), ("via", self.via), ("backend", self.backend)];
        push_object(json, target);
        self.push_arguments(json);
        json.push(b'}');
    }

    fn push_extra(&self, json: &mut Vec<u8>) {
        json.extend_from_slice(br#"","extra":{"decision":""#);
        json.extend_from_slice(self.decision.as_bytes());
        json.push(b'"');
        if let Some(policy) = self.policy {
            json.extend_from_slice(br#","policy":"#);
            push_field(json, policy);
        }
        json.extend_from_slice(br#","policyVersion":"#);
        push_string(json, self.policy_version);
        if !self.webhooks.is_empty() {
            // Each webhook's name, a colon and the effect.
            let effects = self.webhooks.iter().map(|one| format!("{}: {}", one.webhook, one.effect));
            json.extend_from_slice(br#","webhooks":"#);
            push_value(json, &effects.collect::<Vec<_>>());
        }
        push_hex_member(json, r#","argumentsSha256":"#, self.arguments_digest);
        json.extend_from_slice(br#","result":"#);
        push_field(json, self.result);
        push_hex_member(json, r#","session":"#, self.session);
        if let Some(run) = self.run {
            json.extend_from_slice(br#","run":"#);
            push_field(json, run);
        }
        push_hex_member(json, r#","traceId":"#, self.trace);
        if let Some(figures) = &self.figures {
            json.extend_from_slice(br#","latencyMs":"#);
            push_fraction(json, figures.latency_ms);
            json.extend_from_slice(br#","requests":"#);
            push_integer(json, figures.requests.into());
            json.extend_from_slice(br#","bytesIn":"#);
            push_integer(json, figures.bytes_in);
            json.extend_from_slice(br#","bytesOut":"#);
            push_integer(json, figures.bytes_out);
        }
        if self.left_out > 0 {
            json.extend_from_slice(br#","leftOut":"#);
            push_integer(json, self.left_out);
        }
        json.push(b'}');
    }

    fn push_subjects(&self, json: &mut Vec<u8>) {
        let identity = &self.principal.identity;
        let known = identity.as_known();
        let claim = |name| known.and_then(|known| known.claims().get(name)).and_then(Value::as_str);
        json.extend_from_slice(br#"","subjects":"#);
        let subjects = [
            ("user", Some(self.actor.unwrap_or_else(|| identity.subject()))),
            ("issuer", known.map(KnownIdentity::issuer)),
            ("name", claim("preferred_username").or_else(|| claim("email"))),
            ("client", claim("client_id").or_else(|| claim("azp"))),
            ("operator", self.principal.operator.as_deref()),
        ];
        push_object(json, subjects);
    }

    /// Appends the arguments of the call: JSON, or the beginning of its text. JSON is encoded again: the
    /// client's text may have line ends.
    fn push_arguments(&self, json: &mut Vec<u8>) {
        let Some(arguments) = self.arguments else { return };
        json.extend_from_slice(br#","data":{"request":"#);
        match serde_json::from_str::<Value>(&arguments.text) {
            Ok(whole) if !arguments.truncated => push_value(json, &whole),
            _ => push_string(json, &arguments.text),
        }
        let end = if arguments.truncated { r#","truncated":true}"# } else { "}" };
        json.extend_from_slice(end.as_bytes());
    }
}
