//! Sends one request to one backend: names as the backend knows them, headers, deadline, trace context and
//! metrics.

use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tracing::{Instrument, info_span};
use vmcp_backend::{CallError, Request, Response, RpcOutcome};
use vmcp_json::object::Object;
use vmcp_wire::era::Era;
use vmcp_wire::handshake::client_capabilities::AnswerableQuestions;
use vmcp_wire::{methods, translate};

use super::input_rounds;
use crate::engine::{Engine, Snapshot};
use crate::route::answer::Answer;
use crate::route::caller::Caller;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces;

/// The target of a request, and how it may be sent.
pub(in crate::route) struct Target<'a> {
    /// The backend's name.
    pub(in crate::route) backend: &'a str,
    /// The MCP method.
    pub(in crate::route) method: &'a str,
    /// The name or URI that the request is about, in the backend's spelling.
    pub(in crate::route) subject: Option<&'a str>,
    /// Arguments that are repeated as HTTP headers (`x-mcp-header`).
    pub(in crate::route) param_headers: Vec<(String, String)>,
    /// Time that the backend has to answer.
    pub(in crate::route) deadline: Duration,
    /// True if the request may be repeated after a lost connection.
    pub(in crate::route) idempotent: bool,
}

impl<'a> Target<'a> {
    /// Makes the target of a request that only reads, and so may be repeated.
    pub(in crate::route) fn read(
        snapshot: &Snapshot,
        backend: &'a str,
        method: &'a str,
        subject: Option<&'a str>,
    ) -> Target<'a> {
        let deadline = snapshot.tool_timeout(backend);
        Target { backend, method, subject, param_headers: Vec::new(), deadline, idempotent: true }
    }
}

/// Sends a request and relays the answer as the backend wrote it.
pub(in crate::route) async fn relay(
    engine: &Engine,
    snapshot: &Snapshot,
    caller: &Caller,
    target: Target<'_>,
    params: &RawValue,
) -> Answer {
    let backend = target.backend;
    match send(snapshot, caller, engine.metrics(), target, params).await {
        Ok(response) => Answer::relayed(backend, response),
        Err(error) => Answer::unanswered(backend, &error),
    }
}

/// Returns the parameters with the subject as the backend spells it; all other bytes stay.
pub(in crate::route) fn renamed(
    params: &Object<'_>,
    key: &str,
    subject: &str,
) -> Result<Box<RawValue>, CallError> {
    let mut edit = params.edit();
    if params.get_str(key).as_deref() != Some(subject) {
        edit.set(key, vmcp_json::text::quoted(subject));
    }
    edit.finish().into_raw().map_err(|error| CallError::Protocol { reason: error.to_string() })
}

/// Sends a request. For a legacy client, questions of a modern backend are answered in input rounds; a modern
/// client gets them as the result.
pub(in crate::route) async fn send(
    snapshot: &Snapshot,
    caller: &Caller,
    metrics: &Metrics,
    target: Target<'_>,
    params: &RawValue,
) -> Result<Response, CallError> {
    if caller.continues.as_deref().is_some_and(|backend| backend != target.backend) {
        let reason = "`requestState` belongs to another backend; repeat the request without it".to_owned();
        return Err(CallError::InvalidRequest { reason });
    }
    let response = send_once(snapshot, caller, metrics, &target, params).await?;
    match caller.era {
        Era::Legacy if input_rounds::asks(&response) => {
            let (answer_timeout, target) = (snapshot.config.proxy.max_tool_timeout, &target);
            let again = |params: Box<RawValue>| async move {
                send_once(snapshot, caller, metrics, target, &params).await
            };
            Box::pin(input_rounds::run(caller, params, response, answer_timeout, again)).await
        }
        Era::Legacy => Ok(response),
        Era::Modern => Ok(visit_first(caller, &target, response)),
    }
}

/// Turns a legacy backend's demand to visit a URL first (an error) into the question that a modern client
/// understands.
fn visit_first(caller: &Caller, target: &Target<'_>, response: Response) -> Response {
    let Response { outcome: RpcOutcome::Error(error), era: Era::Legacy } = &response else { return response };
    let declared = caller.client.capabilities.as_deref();
    let url = RawValue::from_string(r#"{"mode":"url"}"#.to_owned()).ok();
    if !methods::may_require_input(target.method)
        || !AnswerableQuestions::read(declared).allow(methods::ELICIT, url.as_deref())
    {
        return response;
    }
    let question = translate::url_elicitation(error).ok().flatten();
    match question.and_then(|question| RawValue::from_string(question).ok()) {
        Some(question) => Response { outcome: RpcOutcome::Result(question.into()), era: Era::Modern },
        None => response,
    }
}

async fn send_once(
    snapshot: &Snapshot,
    caller: &Caller,
    metrics: &Metrics,
    target: &Target<'_>,
    params: &RawValue,
) -> Result<Response, CallError> {
    // The backend was removed after this snapshot was loaded.
    let Some(backend) = snapshot.backends.get(target.backend) else {
        return Err(CallError::unsent("it is being removed"));
    };
    let span =
        info_span!("backend.call", backend = target.backend, method = target.method, name = target.subject);
    let request = Request {
        subject: target.subject,
        param_headers: target.param_headers.clone(),
        deadline: target.deadline,
        hasty: target.deadline < snapshot.tool_timeout(target.backend),
        trace: traces::outgoing(&span, &caller.trace),
        client: caller.client.clone(),
        session: caller.session,
        events: caller.events.clone(),
        cancel: caller.cancel.clone(),
        idempotent: target.idempotent,
        ..Request::new(target.method, params)
    };
    let started = Instant::now();
    let answer = backend.request(request).instrument(span).await;
    let outcome = match &answer {
        Ok(Response { outcome: RpcOutcome::Result(result), .. }) if result.is_tool_error() => "tool_error",
        Ok(Response { outcome: RpcOutcome::Result(_), .. }) => "ok",
        Ok(Response { outcome: RpcOutcome::Error(_), .. }) => "rpc_error",
        Err(error) => error.category(),
    };
    metrics.count_call(target.backend, outcome, started.elapsed());
    answer
}
