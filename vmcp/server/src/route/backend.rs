//! One request to one backend: names as the backend knows them, headers, deadline, trace, metrics.

use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tracing::{Instrument, info_span};
use vmcp_backend::{CallError, Outcome, Request, Response};
use vmcp_json::object::Object;
use vmcp_model::catalog::CatalogTool;
use vmcp_wire::era::Era;
use vmcp_wire::handshake::client_capabilities;
use vmcp_wire::headers::{ParamHeader, build_param_headers};
use vmcp_wire::lists::tasks::TASK;
use vmcp_wire::{methods, translate};

use super::{Caller, rounds, tasks};
use crate::engine::Snapshot;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces;

/// Where a request goes.
pub(crate) struct Target<'a> {
    /// The backend's name.
    pub(crate) backend: &'a str,
    /// The method.
    pub(crate) method: &'a str,
    /// What the request names, in the backend's spelling.
    pub(crate) subject: Option<&'a str>,
    /// Arguments that travel as headers too.
    pub(crate) param_headers: Vec<(String, String)>,
    /// How long the backend may take.
    pub(crate) deadline: Duration,
    /// Whether asking twice does no harm.
    pub(crate) idempotent: bool,
}

/// Calls a tool. `params` are those of `tools/call` for this tool under any name; its name and nothing else is replaced.
/// This is where every way of reaching a tool ends.
pub(crate) async fn call_tool(
    snapshot: &Snapshot,
    caller: &Caller,
    metrics: &Metrics,
    tool: &CatalogTool,
    params: &Object<'_>,
    deadline: Duration,
) -> Result<Response, CallError> {
    let original = tool.definition.name.as_str();
    let as_task = params.text(TASK).is_some() && tasks::may_ask(snapshot, caller, &tool.backend);
    let params = renamed(params, "name", original)?;
    let params = if as_task { params } else { without_task(params)? };
    let hints = &tool.definition.annotations;
    let target = Target {
        backend: &tool.backend,
        method: methods::TOOLS_CALL,
        subject: Some(original),
        param_headers: param_headers(tool, &params),
        deadline,
        idempotent: hints.read_only_hint == Some(true) || hints.idempotent_hint == Some(true),
    };
    let response = send(snapshot, caller, metrics, target, &params).await?;
    tasks::learn(snapshot, caller, &tool.backend, as_task, &response)?;
    Ok(response)
}

/// The parameters without what asks for a task by the rules of 2025-11-25: other servers do not know it.
fn without_task(params: Box<RawValue>) -> Result<Box<RawValue>, CallError> {
    let object = Object::parse(&params).unwrap_or_default();
    if object.text(TASK).is_none() {
        return Ok(params);
    }
    let mut edit = object.edit();
    edit.remove(TASK);
    edit.finish().into_raw().map_err(|error| CallError::Protocol { reason: error.to_string() })
}

/// The parameters with the subject as the backend spells it.
pub(crate) fn renamed(params: &Object<'_>, key: &str, subject: &str) -> Result<Box<RawValue>, CallError> {
    let mut edit = params.edit();
    if params.get_str(key).as_deref() != Some(subject) {
        edit.set(key, vmcp_json::text::quoted(subject));
    }
    edit.finish().into_raw().map_err(|error| CallError::Protocol { reason: error.to_string() })
}

/// Sends a request, and again with the client's answers as long as the backend asks and the client can be asked meanwhile.
pub(crate) async fn send(
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
        Era::Legacy if rounds::asks(&response) => {
            let (patience, target) = (snapshot.config.proxy.max_tool_timeout, &target);
            let again = |params: Box<RawValue>| async move {
                send_once(snapshot, caller, metrics, target, &params).await
            };
            Box::pin(rounds::run(caller, params, response, patience, again)).await
        }
        Era::Legacy => Ok(response),
        Era::Modern => Ok(visit_first(caller, &target, response)),
    }
}

/// A legacy backend's demand to visit a URL first, as the question that a modern client understands.
fn visit_first(caller: &Caller, target: &Target<'_>, response: Response) -> Response {
    let Response { outcome: Outcome::Error(error), era: Era::Legacy } = &response else { return response };
    let declared = caller.client.capabilities.as_deref();
    let url = RawValue::from_string(r#"{"mode":"url"}"#.to_owned()).ok();
    if !methods::may_require_input(target.method)
        || !client_capabilities::may_ask(declared, methods::ELICIT, url.as_deref())
    {
        return response;
    }
    let question = translate::url_elicitation(error).ok().flatten();
    match question.and_then(|question| RawValue::from_string(question).ok()) {
        Some(question) => Response { outcome: Outcome::Result(question.into()), era: Era::Modern },
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
    // The catalog outlives a removed backend by one snapshot at most.
    let Some(backend) = snapshot.backends.get(target.backend) else {
        return Err(CallError::Unavailable { reason: "it is being removed".to_owned() });
    };
    let span =
        info_span!("backend.call", backend = target.backend, method = target.method, name = target.subject);
    let request = Request {
        method: target.method,
        params,
        routing_name: target.subject,
        param_headers: target.param_headers.clone(),
        deadline: target.deadline,
        trace: traces::outgoing(&span, &caller.trace),
        client: caller.client.clone(),
        session: caller.session,
        events: caller.events.clone(),
        cancel: caller.cancel.clone(),
        idempotent: target.idempotent,
    };
    let started = Instant::now();
    let answer = backend.request(request).instrument(span).await;
    let outcome = match &answer {
        Ok(Response { outcome: Outcome::Result(result), .. }) if result.is_tool_error() => "tool_error",
        Ok(Response { outcome: Outcome::Result(_), .. }) => "ok",
        Ok(Response { outcome: Outcome::Error(_), .. }) => "rpc_error",
        Err(error) => error.category(),
    };
    metrics.count_call(target.backend, outcome, started.elapsed());
    answer
}

fn param_headers(tool: &CatalogTool, params: &RawValue) -> Vec<(String, String)> {
    if tool.definition.param_headers.is_empty() {
        return Vec::new();
    }
    let annotations = tool.definition.param_headers.iter();
    let annotations: Vec<_> = annotations
        .map(|annotation| ParamHeader { name: annotation.header.clone(), path: annotation.path.clone() })
        .collect();
    let arguments = Object::parse(params).ok().and_then(|params| params.get("arguments"));
    build_param_headers(&annotations, arguments)
}
