//! The handler of read_mcp_resource: reads a resource through the call seam, as `resources/read` does.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use vmcp_backend::RpcOutcome;
use vmcp_config::OptimTool;
use vmcp_json::object::Object;
use vmcp_json::text;
use vmcp_wire::methods;
use vmcp_wire::owned::OwnedParams;

use super::own_answer::{self, Refusal};
use crate::answer::tool_result;
use crate::answer::{self, Answer};
use crate::call::{self, Denied, hidden};
use crate::caller::CallContext;
use crate::own_tools::arguments::own_arguments::{OwnArguments, SERVER};
use crate::router::{self, BackendTarget};
use vmcp_engine::access::policy::Item;
use vmcp_engine::telemetry::calls::{Origin, Outcome};

/// Most characters of a URI.
const MAX_URI_CHARS: usize = 4096;
/// Origin of its records.
const ORIGIN: Origin = Origin::Own(OptimTool::ReadMcpResource);

/// Reads the resource that the arguments name.
pub(super) async fn run(context: CallContext<'_>, arguments: &RawValue) -> Answer {
    let begun = Instant::now();
    match read(context, arguments).await {
        Ok(json) => Answer::own(tool_result::structured(&json)),
        Err(refusal) => {
            // Policies are asked about a hidden resource, which takes longer than to find an unknown one.
            hidden::hold(context, begun).await;
            Answer::own(own_answer::refused(refusal))
        }
    }
}

async fn read(context: CallContext<'_>, arguments: &RawValue) -> Result<Box<RawValue>, Refusal> {
    let recorder = context.start_own_record(ORIGIN, arguments);
    let asked = OwnArguments::parse(arguments).and_then(|arguments| {
        let limit = context.snapshot.config.optimizer.limits.tool_name_chars;
        Ok((arguments.required(&["resource_uri", "uri"], MAX_URI_CHARS)?, arguments.text(&SERVER, limit)?))
    });
    let (uri, server) = match asked {
        Ok(asked) => asked,
        Err(error) => {
            recorder.settle(Outcome::ToolError);
            return Err(error.into());
        }
    };
    let fail = |server: Option<&str>, error: String| {
        Refusal::json(&ReadFailure { success: false, server, uri: &uri, error })
    };
    let unknown = || fail(server.as_deref(), format!("resource not found: {uri}"));
    let Some(backend) = backend(context, &uri, server.as_deref()) else {
        recorder.settle(Outcome::ToolError);
        return Err(unknown());
    };
    let target =
        BackendTarget::read(context.snapshot, backend, methods::RESOURCES_READ, Item::Resource(&uri));
    let authorized = call::authorize(context, recorder, target, None).map_err(|Denied| unknown())?;
    let params = OwnedParams::from_text(format!(r#"{{"uri":{}}}"#, text::quoted(&uri)));
    let params = params.map_err(|error| fail(Some(backend), error.to_string()))?;
    let response = authorized.call(&params).await.map_err(|error| fail(Some(backend), error.to_string()))?;
    if answer::is_pending(&response) {
        let error = "the server asks a question first; read it with resources/read".to_owned();
        return Err(fail(Some(backend), error));
    }
    match response.outcome {
        RpcOutcome::Result(result) => written(backend, &uri, &result)
            .ok_or_else(|| fail(Some(backend), "the answer has no contents".into())),
        RpcOutcome::Error(error) => {
            let message =
                Object::parse(&error).ok().and_then(|error| Some(error.get_str("message")?.into_owned()));
            Err(fail(Some(backend), message.unwrap_or_else(|| "the server refused".to_owned())))
        }
        RpcOutcome::Arriving(_) => Err(fail(Some(backend), "the answer is incomplete".to_owned())),
    }
}

/// Returns the server to ask: the named one, if the caller sees it and no other serves the URI out of its
/// sight, else the one that the URI leads to.
fn backend<'a>(context: CallContext<'a>, uri: &str, server: Option<&str>) -> Option<&'a std::sync::Arc<str>> {
    let view = context.view;
    if view.hides(uri) {
        return None;
    }
    match server {
        None => router::resource(context, uri),
        Some(server) => {
            let mut names = context.snapshot.backends.keys().filter(|name| view.has_backend(name));
            names.find(|name| name.eq_ignore_ascii_case(server))
        }
    }
}

#[derive(Deserialize)]
struct ReadResult<'a> {
    #[serde(borrow)]
    contents: Vec<&'a RawValue>,
}

/// Writes the contents of a resource: the text, or the bytes in base64. Of several, the first is `content`,
/// and all are `contents`.
fn written(server: &str, uri: &str, result: &RawValue) -> Option<Box<RawValue>> {
    let result: ReadResult<'_> = serde_json::from_str(result.get()).ok()?;
    let first = Object::parse(result.contents.first()?).ok()?;
    let text = first.get("text");
    let read = ReadResource {
        success: true,
        server,
        uri,
        content: text.or_else(|| first.get("blob"))?,
        encoding: text.is_none().then_some("base64"),
        mime_type: first.get("mimeType"),
        contents: (result.contents.len() > 1).then_some(&result.contents),
    };
    to_raw_value(&read).ok()
}

#[derive(Serialize)]
struct ReadResource<'a> {
    success: bool,
    server: &'a str,
    uri: &'a str,
    content: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    mime_type: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    contents: Option<&'a Vec<&'a RawValue>>,
}

#[derive(Serialize)]
struct ReadFailure<'a> {
    success: bool,
    server: Option<&'a str>,
    uri: &'a str,
    error: String,
}
