//! `/api/v1/servers`: the caller's servers and tools, and calls of them, over plain HTTP, for programs that
//! do not speak MCP. A call takes the way of `optim.call_tool`: its policies, limits, mending and audit. Each
//! read asks the policies about the own tool that shows the same.

mod openapi;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::ALLOW;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use vmcp_config::{Config, OptimTool};
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::{Engine, Snapshot};
use vmcp_model::catalog::CatalogTool;
use vmcp_route::{CallContext, Caller, listed_servers, may_use};
use vmcp_wire::owned::OwnedParams;

use crate::transport::http::exchange::{PlainApi, Response};
use crate::transport::http::respond;

/// Beginning of the paths of the API.
const PREFIX: &str = "/api/v1/";

/// A path of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RestPath<'a> {
    /// This API, as OpenAPI.
    OpenApi,
    /// The servers.
    Servers,
    /// The tools of a server.
    Tools(Cow<'a, str>),
    /// A tool, by the name that its server gave it or the listed one.
    Tool(Cow<'a, str>, Cow<'a, str>),
}

impl RestPath<'_> {
    fn from_path(path: &str) -> Option<RestPath<'_>> {
        let name = |part| percent_decode_str(part).decode_utf8().ok().filter(|name| !name.is_empty());
        let parts: Vec<_> = path.strip_prefix(PREFIX)?.split('/').collect();
        match parts.as_slice() {
            ["openapi.json"] => Some(RestPath::OpenApi),
            ["servers"] => Some(RestPath::Servers),
            ["servers", server, "tools"] => name(server).map(RestPath::Tools),
            ["servers", server, "tools", tool] => Some(RestPath::Tool(name(server)?, name(tool)?)),
            _ => None,
        }
    }

    /// Methods of the path.
    fn methods(&self) -> &'static str {
        if matches!(self, RestPath::Tool(..)) { "GET, POST" } else { "GET" }
    }

    /// Returns the own tool that shows the same as a read of the path, with the arguments of its call, which
    /// policies may read; `None` for the document, which is the same for all callers.
    fn right(&self) -> Option<(OptimTool, Value)> {
        match self {
            RestPath::OpenApi => None,
            RestPath::Servers => Some((OptimTool::ListMcpServers, json!({}))),
            RestPath::Tools(server) => Some((OptimTool::ListTools, json!({ "server_name": server }))),
            RestPath::Tool(server, tool) => {
                Some((OptimTool::GetToolSchema, json!({ "server_name": server, "tool_name": tool })))
            }
        }
    }
}

/// The API.
pub(crate) struct RestApi {
    engine: Engine,
}

impl RestApi {
    /// Serves the servers and tools of `engine`.
    pub(crate) fn new(engine: Engine) -> RestApi {
        RestApi { engine }
    }
}

impl PlainApi for RestApi {
    const NAME: &'static str = "/api/v1";
    const TAKES_BODY: bool = true;

    fn serves(config: &Config, path: &str) -> bool {
        let optimizer = &config.optimizer;
        optimizer.enabled && optimizer.discovery.rest_api && RestPath::from_path(path).is_some()
    }

    /// Returns the method and the path, without names, which the audit event of the call has.
    fn request_name(head: &Parts) -> Cow<'static, str> {
        let path = match RestPath::from_path(head.uri.path()) {
            Some(RestPath::Tool(..)) => "/api/v1/servers/{server}/tools/{tool}",
            Some(RestPath::Tools(_)) => "/api/v1/servers/{server}/tools",
            Some(RestPath::OpenApi) => "/api/v1/openapi.json",
            _ => "/api/v1/servers",
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
        let Some(path) = RestPath::from_path(head.uri.path()) else { return not_found("no such path") };
        let is_read = matches!(head.method, Method::GET | Method::HEAD);
        let is_call = head.method == Method::POST && matches!(path, RestPath::Tool(..));
        if !is_read && !is_call {
            return not_allowed(path.methods());
        }
        let fresh = self.engine.wait_for_first_listings().await.then(|| self.engine.snapshot());
        let snapshot = fresh.as_ref().unwrap_or(snapshot);
        self.engine.prepare(snapshot, principal).await;
        let view = snapshot.view(principal);
        let caller = Caller { principal: principal.clone(), ..Caller::default() };
        let context = CallContext { engine: &self.engine, snapshot, view: &view, caller: &caller };
        if let Some((tool, arguments)) = path.right().filter(|_| is_read)
            && !may_use(context, tool, Some(&arguments.to_string()))
        {
            return not_found("no such path");
        }
        match path {
            RestPath::OpenApi => respond::document(StatusCode::OK, &openapi::document()),
            RestPath::Servers => {
                respond::document(StatusCode::OK, &Servers { servers: listed_servers(context) })
            }
            RestPath::Tools(server) => {
                if !(snapshot.backends.contains_key(&*server) && view.has_backend(&server)) {
                    return not_found("no such server");
                }
                let of_server = view.tools().filter(|tool| *tool.backend == *server);
                let mut tools: Vec<_> = of_server.map(|tool| ShownTool::from(&**tool)).collect();
                tools.sort_by_key(|tool| tool.name);
                respond::document(StatusCode::OK, &Tools { server: &server, tools })
            }
            RestPath::Tool(server, tool) if is_read => match view.tools_of(&server, &tool).as_slice() {
                [tool] => respond::document(StatusCode::OK, &ShownTool::from(&***tool)),
                _ => not_found("no such tool"),
            },
            RestPath::Tool(server, tool) => call(context, &server, &tool, body).await,
        }
    }
}

/// Calls a tool by `optim.call_tool`, and answers with its `CallToolResult`.
async fn call(context: CallContext<'_>, server: &str, tool: &str, body: &[u8]) -> Response {
    let written = if body.trim_ascii().is_empty() { b"{}" } else { body };
    let Some(parameters) = object(written) else {
        return failure(StatusCode::BAD_REQUEST, "the body must be a JSON object: the tool's arguments");
    };
    let arguments = CallArguments { server_name: server, tool_name: tool, parameters };
    let params = serde_json::to_string(&CallParams { name: "optim.call_tool", arguments });
    let Some(params) = params.ok().and_then(|params| OwnedParams::from_text(params).ok()) else {
        return failure(StatusCode::BAD_REQUEST, "the body cannot be read");
    };
    match vmcp_route::call_tool(context, &params).await.content.settled() {
        Ok(result) => respond::json_text(StatusCode::OK, result.get().to_owned()),
        Err(error) => respond::json_text(StatusCode::BAD_REQUEST, format!("{{\"error\":{}}}", error.get())),
    }
}

/// Returns a text that is one JSON object.
fn object(text: &[u8]) -> Option<&RawValue> {
    serde_json::from_slice::<&RawValue>(text).ok().filter(|value| value.get().starts_with('{'))
}

#[derive(Serialize)]
struct CallParams<'a> {
    name: &'a str,
    arguments: CallArguments<'a>,
}

#[derive(Serialize)]
struct CallArguments<'a> {
    server_name: &'a str,
    tool_name: &'a str,
    parameters: &'a RawValue,
}

#[derive(Serialize)]
struct Servers<S> {
    servers: S,
}

#[derive(Serialize)]
struct Tools<'a> {
    server: &'a str,
    tools: Vec<ShownTool<'a>>,
}

#[derive(Serialize)]
struct ShownTool<'a> {
    /// Name in lists.
    name: &'a str,
    /// Name that its server gave it.
    original: &'a str,
    definition: &'a RawValue,
}

impl<'a> From<&'a CatalogTool> for ShownTool<'a> {
    fn from(tool: &'a CatalogTool) -> Self {
        Self { name: tool.name.as_str(), original: &tool.definition.name, definition: &tool.raw }
    }
}

#[derive(Serialize)]
struct Failure<'a> {
    error: FailureMessage<'a>,
}

#[derive(Serialize)]
struct FailureMessage<'a> {
    message: &'a str,
}

fn not_found(message: &str) -> Response {
    failure(StatusCode::NOT_FOUND, message)
}

fn not_allowed(methods: &'static str) -> Response {
    let mut response = failure(StatusCode::METHOD_NOT_ALLOWED, &format!("use {methods}"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

fn failure(status: StatusCode, message: &str) -> Response {
    respond::document(status, &Failure { error: FailureMessage { message } })
}

#[cfg(test)]
mod tests;
