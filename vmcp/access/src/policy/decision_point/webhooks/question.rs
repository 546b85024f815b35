//! Questions to a webhook, in the shape of ToolHive's `Request`.

use std::net::IpAddr;
use std::time::SystemTime;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;
use vmcp_config::{SentClaims, Webhook as Settings};

use super::{MAX_QUESTION_BYTES, WebhookFailure};
use crate::identity::Identity;
use crate::identity::claim_path::lookup;
use crate::policy::principal::groups;

/// Version of the format: ToolHive's.
const VERSION: &str = "v0.1.0";
/// Name of the server that asks.
const SERVER_NAME: &str = "vmcp";
/// Id of the request and the response that a webhook sees: the client's own id is of no use to it.
const REQUEST_ID: u32 = 1;

/// A call of a tool that a webhook is asked about.
#[derive(Debug, Clone, Copy)]
pub struct AskedCall<'a> {
    /// The client.
    pub identity: &'a Identity,
    /// The client's address; `None`: it is on this machine, over stdio.
    pub address: Option<IpAddr>,
    /// The backend; `composite` for a composite tool.
    pub backend: &'a str,
    /// The tool's listed name.
    pub name: &'a str,
    /// The backend's own name of the tool.
    pub original_name: &'a str,
    /// The arguments as JSON text; `None`: the call has none.
    pub arguments: Option<&'a str>,
    /// The answer as JSON text, behind the call.
    pub answer: Option<ToolAnswer<'a>>,
}

/// The answer of a tool as JSON text.
#[derive(Debug, Clone, Copy)]
pub enum ToolAnswer<'a> {
    /// The `result`, also one with `isError`.
    Result(&'a str),
    /// The JSON-RPC `error`.
    Error(&'a str),
}

/// A question: texts of the call and its answer, which are copied only in [`Question::to_body`].
#[derive(Serialize)]
pub(super) struct Question<'a> {
    version: &'static str,
    uid: String,
    timestamp: String,
    /// Null: the client is anonymous.
    principal: Option<Principal<'a>>,
    mcp_request: Request<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mcp_response: Option<Response<'a>>,
    context: Context<'a>,
}

#[derive(Serialize)]
struct Principal<'a> {
    sub: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<&'a str>,
    groups: Vec<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    claims: Map<String, Value>,
}

#[derive(Serialize)]
struct Request<'a> {
    jsonrpc: &'static str,
    id: u32,
    method: &'static str,
    params: Params<'a>,
}

#[derive(Serialize)]
struct Params<'a> {
    name: &'a str,
    arguments: &'a RawValue,
}

#[derive(Serialize)]
struct Response<'a> {
    jsonrpc: &'static str,
    id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Context<'a> {
    server_name: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    backend_server: &'a str,
    source_ip: String,
    transport: &'static str,
}

/// The part of a call that patches may change, with texts of its own for a blocking thread.
pub(super) enum PatchedPart {
    /// Before the call.
    Request {
        /// The name of the tool that the service is told.
        name: String,
        arguments: String,
    },
    /// Behind the call.
    Response {
        /// `result` or `error`.
        key: &'static str,
        value: String,
    },
}

impl<'a> AskedCall<'a> {
    /// Returns the name of the tool that the service is told.
    fn told_name(&self, settings: &Settings) -> &'a str {
        if settings.original_names { self.original_name } else { self.name }
    }

    fn arguments(&self) -> &'a str {
        let written = self.arguments.map(str::trim).filter(|arguments| *arguments != "null");
        written.unwrap_or("{}")
    }

    /// Returns the text of the part that patches may change.
    pub(super) fn patched_text(&self) -> &'a str {
        match self.answer {
            None => self.arguments(),
            Some(ToolAnswer::Result(text) | ToolAnswer::Error(text)) => text,
        }
    }

    /// Copies the part that patches may change.
    pub(super) fn patched_part(&self, settings: &Settings) -> PatchedPart {
        let text = self.patched_text().to_owned();
        match self.answer {
            None => PatchedPart::Request { name: self.told_name(settings).to_owned(), arguments: text },
            Some(ToolAnswer::Result(_)) => PatchedPart::Response { key: "result", value: text },
            Some(ToolAnswer::Error(_)) => PatchedPart::Response { key: "error", value: text },
        }
    }
}

impl PatchedPart {
    /// Returns the document that patches apply to.
    pub(super) fn document(&self) -> Result<Value, WebhookFailure> {
        let (jsonrpc, id) = (Value::from("2.0"), Value::from(REQUEST_ID));
        Ok(match self {
            PatchedPart::Request { name, arguments } => {
                let params = object([("name", name.as_str().into()), ("arguments", value(arguments)?)]);
                let method = Value::from("tools/call");
                let members = [("jsonrpc", jsonrpc), ("id", id), ("method", method), ("params", params)];
                object([("mcp_request", object(members))])
            }
            PatchedPart::Response { key, value: text } => {
                let response = object([("jsonrpc", jsonrpc), ("id", id), (*key, value(text)?)]);
                object([("mcp_response", response)])
            }
        })
    }
}

/// Makes an object; its values are moved, where `json!` copies them.
fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// Parses a text of the client or the backend.
fn value(text: &str) -> Result<Value, WebhookFailure> {
    serde_json::from_str(text).map_err(|error| WebhookFailure::Unaskable(error.to_string()))
}

fn unaskable(reason: &str) -> WebhookFailure {
    WebhookFailure::Unaskable(reason.to_owned())
}

fn too_long() -> WebhookFailure {
    unaskable("it has more than 8 MiB")
}

impl Question<'_> {
    /// Writes the question as JSON text; fails if it is too long.
    pub(super) fn to_body(&self) -> Result<Vec<u8>, WebhookFailure> {
        let text = serde_json::to_vec(self).map_err(|error| unaskable(&error.to_string()))?;
        if text.len() > MAX_QUESTION_BYTES { Err(too_long()) } else { Ok(text) }
    }
}

/// Makes a question. Fails if the client's groups cannot be read, a part cannot be parsed, or the whole is
/// too long: a webhook that cannot be shown a call cannot allow it.
pub(super) fn question<'a>(
    settings: &Settings,
    call: &AskedCall<'a>,
    now: SystemTime,
) -> Result<Question<'a>, WebhookFailure> {
    let raw =
        |text| serde_json::from_str::<&RawValue>(text).map_err(|_| unaskable("a part of it is no JSON"));
    // Before anything is copied: a text of the backend may be much longer.
    let length = call.arguments().len()
        + call.answer.map_or(0, |(ToolAnswer::Result(text) | ToolAnswer::Error(text))| text.len());
    if length > MAX_QUESTION_BYTES {
        return Err(too_long());
    }
    let response = |result, error| Response { jsonrpc: "2.0", id: REQUEST_ID, result, error };
    let mcp_response = match call.answer {
        Some(ToolAnswer::Result(text)) => Some(response(Some(raw(text)?), None)),
        Some(ToolAnswer::Error(text)) => Some(response(None, Some(raw(text)?))),
        None => None,
    };
    Ok(Question {
        version: VERSION,
        uid: Uuid::new_v4().to_string(),
        timestamp: humantime::format_rfc3339_micros(now).to_string(),
        principal: principal(settings, call.identity)?,
        mcp_request: Request {
            jsonrpc: "2.0",
            id: REQUEST_ID,
            method: "tools/call",
            params: Params { name: call.told_name(settings), arguments: raw(call.arguments())? },
        },
        mcp_response,
        context: Context {
            server_name: SERVER_NAME,
            backend_server: call.backend,
            source_ip: call.address.map(|address| address.to_canonical().to_string()).unwrap_or_default(),
            transport: if call.address.is_some() { "streamable-http" } else { "stdio" },
        },
    })
}

fn principal<'a>(
    settings: &Settings,
    identity: &'a Identity,
) -> Result<Option<Principal<'a>>, WebhookFailure> {
    let Some(known) = identity.as_known() else { return Ok(None) };
    let all = known.claims();
    let groups = groups::groups(&settings.group_claims, settings.role_claim.as_ref(), all);
    if let Some(reason) = groups.unreadable {
        return Err(WebhookFailure::Unaskable(reason));
    }
    let claims: Map<String, Value> = match &settings.claims {
        SentClaims::All => all.clone(),
        SentClaims::Named(names) => {
            names.iter().filter_map(|name| Some((name.clone(), lookup(all, name)?.clone()))).collect()
        }
    };
    let text = |name: &str| claims.contains_key(name).then(|| all.get(name)?.as_str()).flatten();
    let (name, email) = (text("name"), text("email"));
    Ok(Some(Principal { sub: identity.subject(), name, email, groups: groups.names, claims }))
}
