//! From a name to whoever answers for it: the one seam for every way of reaching a tool (invariant 4).
//!
//! A direct call and a call through call_tool meet in [`backend::call`]; what authorizes a call one day belongs there, in
//! front of the target that will really run.

pub(crate) mod backend;
pub mod extensions;
mod rounds;
pub mod tasks;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use vmcp_backend::{CallError, ClientFacts, Event, Outcome, Response, SessionId};
use vmcp_json::object::Object;
use vmcp_wire::codes;
use vmcp_wire::era::Era;
use vmcp_wire::meta::Trace;
use vmcp_wire::methods;
use vmcp_wire::payload::Payload;
use vmcp_wire::rpc::RpcError;
use vmcp_wire::translate::{ResultType, payload_type};

use crate::engine::{Engine, Snapshot};
use crate::identity::Identity;
use crate::optim;
use backend::Target;

/// A W3C trace context that owns its parts.
pub type TraceContext = Trace<'static>;

/// Who asks, and how to reach them while their request runs.
#[derive(Clone, Default)]
pub struct Caller {
    /// Whose view of the catalog counts.
    pub identity: Identity,
    /// How it is asked for input: a modern client by the result, an older one while its request is under way.
    pub era: Era,
    /// What a backend may be told about the client.
    pub client: ClientFacts,
    /// The trace that the request belongs to.
    pub trace: TraceContext,
    /// The session, in the legacy era.
    pub session: Option<SessionId>,
    /// Receives what a backend sends before its answer. `None`: the caller cannot take anything.
    pub events: Option<mpsc::Sender<Event>>,
    /// Cancels the request.
    pub cancel: CancellationToken,
    /// The backend that this request goes on with, when it carries that backend's state.
    pub continues: Option<Arc<str>>,
}

/// What a request came to.
#[derive(Debug)]
pub struct Answer {
    /// The `result` or the `error` object; a backend's are as the backend wrote them.
    pub outcome: Result<Payload, Payload>,
    /// The era in whose terms it is written; the edge translates.
    pub era: Era,
    /// The backend that said so, when it is no complete result but a question or a task.
    pub pending: Option<Box<str>>,
}

impl Answer {
    /// A result of our own. It has no key that differs between the eras, and says that it is of the older one, so that
    /// translation adds what the newer one wants.
    pub fn own(result: Box<RawValue>) -> Answer {
        Answer { outcome: Ok(result.into()), era: Era::Legacy, pending: None }
    }

    /// An error of our own.
    pub fn error(error: &RpcError) -> Answer {
        let error = RawValue::from_string(error.to_json()).unwrap_or_default();
        Answer { outcome: Err(error.into()), era: Era::Modern, pending: None }
    }

    fn invalid(message: impl Into<String>) -> Answer {
        Answer::error(&RpcError::new(codes::INVALID_PARAMS, message))
    }

    /// Written as the newer revision wants it; translation gives an older client the older code.
    fn no_resource(uri: &str) -> Answer {
        let uri = shown(uri);
        let error = RpcError::new(codes::INVALID_PARAMS, format!("Resource not found: {uri}"));
        Answer::error(&error.with_data(json!({ "uri": uri }).to_string()))
    }

    /// What a backend answered.
    pub(crate) fn relayed(backend: &str, response: Response) -> Answer {
        let era = response.era;
        let (outcome, complete) = match response.outcome {
            Outcome::Result(result) => {
                let complete = era == Era::Legacy || payload_type(&result) == ResultType::Complete;
                (Ok(result), complete)
            }
            Outcome::Error(error) => (Err(error), true),
        };
        Answer { outcome, era, pending: (!complete).then(|| backend.into()) }
    }

    /// A backend that did not answer.
    pub(crate) fn unanswered(backend: &str, error: &CallError) -> Answer {
        let data = json!({ "category": error.category() }).to_string();
        Answer::error(
            &RpcError::new(codes::INTERNAL_ERROR, format!("backend {backend}: {error}")).with_data(data),
        )
    }
}

/// `tools/call`: one of our tools, or a backend's. `params` as the client sent them.
pub async fn call_tool(engine: &Engine, caller: &Caller, params: &RawValue) -> Answer {
    let params = match Subject::parse(params, "name") {
        Ok(params) => params,
        Err(error) => return Answer::error(&error),
    };
    let snapshot = engine.snapshot();
    let view = snapshot.view(caller.identity);
    if let Some(tool) = optim::called(&snapshot, view, &params.subject) {
        return optim::run(engine, &snapshot, caller, tool, &params.object).await;
    }
    let Some(tool) = view.tool(&params.subject) else {
        return Answer::invalid(format!("Unknown tool: {}", shown(&params.subject)));
    };
    let deadline = snapshot.tool_timeout(&tool.backend);
    match backend::call_tool(&snapshot, caller, engine.metrics(), tool, &params.object, deadline).await {
        Ok(response) => Answer::relayed(&tool.backend, response),
        Err(error) => optim::failed_call(tool, &error),
    }
}

/// `prompts/get`.
pub async fn get_prompt(engine: &Engine, caller: &Caller, params: &RawValue) -> Answer {
    let params = match Subject::parse(params, "name") {
        Ok(params) => params,
        Err(error) => return Answer::error(&error),
    };
    let snapshot = engine.snapshot();
    let Some(prompt) = snapshot.view(caller.identity).prompt(&params.subject) else {
        return Answer::invalid(format!("Unknown prompt: {}", shown(&params.subject)));
    };
    let original = &prompt.definition.name;
    let target = read(&snapshot, &prompt.backend, methods::PROMPTS_GET, Some(original));
    match backend::renamed(&params.object, "name", original) {
        Ok(params) => relay(engine, &snapshot, caller, target, &params).await,
        Err(error) => Answer::unanswered(&prompt.backend, &error),
    }
}

/// `resources/read`.
pub async fn read_resource(engine: &Engine, caller: &Caller, params: &RawValue) -> Answer {
    let subject = match Subject::parse(params, "uri") {
        Ok(params) => params.subject,
        Err(error) => return Answer::error(&error),
    };
    let snapshot = engine.snapshot();
    let view = snapshot.view(caller.identity);
    let listed = view.resource(&subject).map(|resource| &**resource.backend());
    let Some(backend) = listed.or_else(|| extensions::unlisted(&snapshot, view, caller, &subject)) else {
        return Answer::no_resource(&subject);
    };
    let target = read(&snapshot, backend, methods::RESOURCES_READ, Some(&subject));
    relay(engine, &snapshot, caller, target, params).await
}

/// `completion/complete`: goes to the backend of the prompt or resource template that it refers to.
pub async fn complete(engine: &Engine, caller: &Caller, params: &RawValue) -> Answer {
    let snapshot = engine.snapshot();
    let view = snapshot.view(caller.identity);
    let parsed =
        Object::parse(params).ok().and_then(|object| Some((Object::parse(object.get("ref")?).ok()?, object)));
    let Some((reference, object)) = parsed else { return Answer::invalid("`ref` must be an object") };
    let text = |key| reference.get_str(key).unwrap_or_default();
    match &*text("type") {
        "ref/prompt" => {
            let name = text("name");
            let Some(prompt) = view.prompt(&name) else {
                return Answer::invalid(format!("Unknown prompt: {}", shown(&name)));
            };
            let target = read(&snapshot, &prompt.backend, methods::COMPLETE, None);
            let renamed =
                backend::renamed(&reference, "name", &prompt.definition.name).and_then(|reference| {
                    let mut edit = object.edit();
                    edit.set("ref", reference.get());
                    edit.finish()
                        .into_raw()
                        .map_err(|error| CallError::Protocol { reason: error.to_string() })
                });
            match renamed {
                Ok(params) => relay(engine, &snapshot, caller, target, &params).await,
                Err(error) => Answer::unanswered(&prompt.backend, &error),
            }
        }
        "ref/resource" => {
            let uri = text("uri");
            let Some(resource) = view.template(&uri).or_else(|| view.resource(&uri)) else {
                return Answer::no_resource(&uri);
            };
            let backend = resource.backend();
            let target = read(&snapshot, backend, methods::COMPLETE, None);
            relay(engine, &snapshot, caller, target, params).await
        }
        _ => Answer::invalid("`ref.type` must be \"ref/prompt\" or \"ref/resource\""),
    }
}

/// A request that only reads, and may be repeated.
fn read<'a>(snapshot: &Snapshot, backend: &'a str, method: &'a str, subject: Option<&'a str>) -> Target<'a> {
    let deadline = snapshot.tool_timeout(backend);
    Target { backend, method, subject, param_headers: Vec::new(), deadline, idempotent: true }
}

async fn relay(
    engine: &Engine,
    snapshot: &Snapshot,
    caller: &Caller,
    target: Target<'_>,
    params: &RawValue,
) -> Answer {
    let backend = target.backend;
    match backend::send(snapshot, caller, engine.metrics(), target, params).await {
        Ok(response) => Answer::relayed(backend, response),
        Err(error) => Answer::unanswered(backend, &error),
    }
}

/// Parameters and what they name.
struct Subject<'a> {
    object: Object<'a>,
    subject: Cow<'a, str>,
}

impl<'a> Subject<'a> {
    fn parse(params: &'a RawValue, key: &str) -> Result<Subject<'a>, RpcError> {
        let invalid = |message: String| RpcError::new(codes::INVALID_PARAMS, message);
        let object = Object::parse(params).map_err(|error| invalid(format!("`params`: {error}")))?;
        let subject =
            object.get_str(key).ok_or_else(|| invalid(format!("`params.{key}` must be a string")))?;
        Ok(Subject { object, subject })
    }
}

/// A name that a client sent, short enough for a message.
fn shown(name: &str) -> String {
    const MOST: usize = 200;
    if name.chars().nth(MOST).is_none() {
        name.to_owned()
    } else {
        name.chars().take(MOST).chain(['…']).collect()
    }
}
