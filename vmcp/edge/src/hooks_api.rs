//! `POST /hooks/*` and `/sessions`: hooks of coding agents, and the sessions that they report. Each client
//! sees the sessions of its own principal; another id gets the answer for an unknown one.

mod query;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::ALLOW;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use serde::Serialize;
use vmcp_config::{Config, SessionHooks};
use vmcp_engine::access::agent_sessions::{AgentSessionError, is_session_id};
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::{Engine, Snapshot};
use vmcp_hooks::hook_call::{HookCall, HookError};
use vmcp_hooks::native::{NativeAnswer, NativeClient};
use vmcp_hooks::report::HookFailure;
use vmcp_hooks::session::{Session, SessionEvent};
use vmcp_route::{CallContext, Caller, execute_hook, may_use_hooks};

use self::query::read_query;
use crate::transport::http::exchange::{PlainApi, Response};
use crate::transport::http::respond;

/// The mistake of a body that is not UTF-8.
const NOT_TEXT: HookError = HookError::Invalid { field: "the body", expected: "a JSON object" };

/// A path of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HookPath<'a> {
    /// A hook in vmcp's own form.
    Execute,
    /// A hook in a client's own form.
    Native(NativeClient),
    /// The caller's sessions.
    Sessions,
    /// One of them.
    Session(&'a str),
}

impl HookPath<'_> {
    fn from_path(path: &str) -> Option<HookPath<'_>> {
        match path.strip_prefix("/hooks/") {
            Some("execute") => Some(HookPath::Execute),
            Some(client) => NativeClient::from_name(client).map(HookPath::Native),
            None if path == "/sessions" => Some(HookPath::Sessions),
            None => path
                .strip_prefix("/sessions/")
                .filter(|id| !id.is_empty() && !id.contains('/'))
                .map(HookPath::Session),
        }
    }

    /// Methods of the path.
    fn methods(self) -> &'static str {
        match self {
            HookPath::Execute | HookPath::Native(_) => "POST",
            HookPath::Sessions => "GET",
            HookPath::Session(_) => "GET, DELETE",
        }
    }
}

/// The API.
pub(crate) struct HooksApi {
    engine: Engine,
}

impl HooksApi {
    /// Serves the sessions of `engine`.
    pub(crate) fn new(engine: Engine) -> HooksApi {
        HooksApi { engine }
    }
}

impl PlainApi for HooksApi {
    const NAME: &'static str = "POST /hooks";
    const TAKES_BODY: bool = true;

    fn serves(config: &Config, path: &str) -> bool {
        let optimizer = &config.optimizer;
        optimizer.enabled && optimizer.session_hooks.enabled && HookPath::from_path(path).is_some()
    }

    /// Returns the method and the path, without the id of a session.
    fn request_name(head: &Parts) -> Cow<'static, str> {
        let path = match HookPath::from_path(head.uri.path()) {
            Some(HookPath::Session(_)) => "/sessions/{id}",
            _ => head.uri.path(),
        };
        Cow::Owned(format!("{} {path}", head.method))
    }

    async fn answer(
        &self,
        head: &Parts,
        body: &Bytes,
        principal: &Principal,
        snapshot: &Arc<Snapshot>,
    ) -> Response {
        let Some(path) = HookPath::from_path(head.uri.path()) else { return not_found() };
        let is_read = matches!(head.method, Method::GET | Method::HEAD);
        self.engine.prepare(snapshot, principal).await;
        let view = snapshot.view(principal);
        let caller = Caller { principal: principal.clone(), ..Caller::default() };
        let context = CallContext { engine: &self.engine, snapshot, view: &view, caller: &caller };
        match path {
            HookPath::Execute if head.method == Method::POST => execute(context, body).await,
            HookPath::Native(client) if head.method == Method::POST => native(context, client, body).await,
            HookPath::Sessions | HookPath::Session(_) if !may_use_hooks(context, None) => not_found(),
            HookPath::Sessions if is_read => self.list(context, head.uri.query().unwrap_or_default()).await,
            HookPath::Session(id) if is_read => self.show(context, id).await,
            HookPath::Session(id) if head.method == Method::DELETE => self.remove(context, id).await,
            _ => not_allowed(path.methods()),
        }
    }
}

impl HooksApi {
    async fn list(&self, context: CallContext<'_>, query: &str) -> Response {
        let query = match read_query(query) {
            Ok(query) => query,
            Err(message) => return failure(StatusCode::BAD_REQUEST, message),
        };
        let sessions = self.engine.agent_sessions();
        match sessions.list(&context.caller.principal, settings(context), query).await {
            Ok(sessions) => {
                // A summary has up to 16 KiB, and quotes prompts: the answer about one session shows it.
                let brief = sessions.into_iter().map(|session| Session { summary: None, ..session });
                respond::document(StatusCode::OK, &Listed { sessions: brief.collect() })
            }
            Err(error) => unavailable(&error),
        }
    }

    async fn show(&self, context: CallContext<'_>, id: &str) -> Response {
        if !is_session_id(id) {
            return not_found();
        }
        let sessions = self.engine.agent_sessions();
        match sessions.get(&context.caller.principal, settings(context), id.to_owned()).await {
            Ok(Some((session, events))) => {
                respond::document(StatusCode::OK, &SessionView { session, events })
            }
            Ok(None) => not_found(),
            Err(error) => unavailable(&error),
        }
    }

    async fn remove(&self, context: CallContext<'_>, id: &str) -> Response {
        if !is_session_id(id) {
            return not_found();
        }
        match self.engine.agent_sessions().remove(&context.caller.principal, id.to_owned()).await {
            Ok(true) => respond::empty(StatusCode::NO_CONTENT),
            Ok(false) => not_found(),
            Err(error) => unavailable(&error),
        }
    }
}

fn settings(context: CallContext<'_>) -> &SessionHooks {
    &context.snapshot.config.optimizer.session_hooks
}

/// Takes a hook in vmcp's own form.
async fn execute(context: CallContext<'_>, body: &[u8]) -> Response {
    let Ok(body) = std::str::from_utf8(body) else { return mistake(NOT_TEXT) };
    let read = HookCall::read(body);
    if !may_use_hooks(context, Some(body)) {
        return not_found();
    }
    match read {
        Ok(call) => match execute_hook(context, call).await {
            Ok(report) => respond::document(StatusCode::OK, &report),
            Err(error) => unavailable(&error),
        },
        Err(error) => mistake(error),
    }
}

/// Takes a hook in the form of a client, and answers in the client's form.
async fn native(context: CallContext<'_>, client: NativeClient, body: &[u8]) -> Response {
    let Ok(body) = std::str::from_utf8(body) else { return mistake(NOT_TEXT) };
    let (read, arguments) = (client.read(body), client.as_arguments(body));
    if !may_use_hooks(context, arguments.as_deref().ok()) {
        return not_found();
    }
    match read {
        Ok(Some(call)) => match execute_hook(context, call).await {
            Ok(report) => respond::document(StatusCode::OK, &NativeAnswer::new(&report)),
            Err(error) => unavailable(&error),
        },
        Ok(None) => respond::document(StatusCode::OK, &NativeAnswer::default()),
        Err(error) => mistake(error),
    }
}

#[derive(Serialize)]
struct Listed {
    sessions: Vec<Session>,
}

#[derive(Serialize)]
struct SessionView {
    #[serde(flatten)]
    session: Session,
    events: Vec<SessionEvent>,
}

/// 400: a hook that cannot be taken.
fn mistake(error: HookError) -> Response {
    respond::document(StatusCode::BAD_REQUEST, &HookFailure::from(error))
}

/// 404: an unknown session, one of another principal, and a caller without the right.
fn not_found() -> Response {
    failure(StatusCode::NOT_FOUND, "not found".to_owned())
}

/// 503: the store failed.
fn unavailable(error: &AgentSessionError) -> Response {
    failure(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
}

fn failure(status: StatusCode, message: String) -> Response {
    respond::document(status, &HookFailure::of_server(message))
}

fn not_allowed(methods: &'static str) -> Response {
    let mut response = failure(StatusCode::METHOD_NOT_ALLOWED, format!("use {methods}"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

#[cfg(test)]
mod tests;
