//! Translates results on their way from a backend to a client.

use std::borrow::Cow;

use serde_json::value::RawValue;
use vmcp_json::json_rope::JsonRope;
use vmcp_json::object::{Edit, Object};
use vmcp_json::text;

use super::{Hints, TranslateError};
use crate::message::era::Era;
use crate::message::methods;
use crate::message::{
    keys::CACHE_SCOPE, keys::REQUEST_STATE, keys::RESULT_TYPE, keys::STRUCTURED_CONTENT, keys::TTL_MS,
};
use crate::message::{meta, meta::META};
use crate::payload::{Key, Payload, Received};

/// The kind of a modern result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultType<'a> {
    /// The answer; the default if the server names no kind.
    Complete,
    /// A question: ask the client, then repeat the request with its answers.
    InputRequired,
    /// A task to be polled; only for requests that declared the extension.
    Task,
    /// A kind that no revision defines, or no string; invalid unless an extension defines it.
    Other(Cow<'a, str>),
}

/// The changes of a result.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResultPlan<'a> {
    /// The era of the backend.
    pub from: Era,
    /// The era of the client.
    pub to: Era,
    /// The cache hints for a modern client, if the backend gave none.
    pub hints: Hints,
    /// The `Implementation`, as JSON, for a modern client, if the backend did not introduce itself.
    pub server_info: Option<&'a str>,
    /// The `requestState` for a modern client, plain text: replaces the backend's, or is added. Only for
    /// results that require input.
    pub request_state: Option<&'a str>,
}

/// Returns the kind of a modern result.
#[must_use]
pub fn result_type<'a>(result: &Object<'a>) -> ResultType<'a> {
    let Some(raw) = result.text(RESULT_TYPE) else { return ResultType::Complete };
    text::unquoted(raw).map_or(ResultType::Other(Cow::Borrowed(raw)), named)
}

/// Returns the kind of a modern result; a received payload is not parsed for it.
#[must_use]
pub fn payload_type(result: &Payload) -> ResultType<'static> {
    match result.received() {
        Some(received) => payload_type_of(received),
        None => match Object::parse(result).as_ref().map(result_type) {
            Ok(ResultType::Other(name)) => ResultType::Other(Cow::Owned(name.into_owned())),
            Ok(ResultType::InputRequired) => ResultType::InputRequired,
            Ok(ResultType::Task) => ResultType::Task,
            Ok(ResultType::Complete) | Err(_) => ResultType::Complete,
        },
    }
}

/// Returns the kind of a received result.
pub(super) fn payload_type_of(received: &Received) -> ResultType<'static> {
    if received.found().has(Key::ResultType) && !received.is(Key::ResultType, "\"complete\"") {
        named(received.string(Key::ResultType).unwrap_or_default().into())
    } else {
        ResultType::Complete
    }
}

pub(super) fn named(name: Cow<'_, str>) -> ResultType<'_> {
    match name.as_ref() {
        "complete" => ResultType::Complete,
        "input_required" => ResultType::InputRequired,
        "task" => ResultType::Task,
        _ => ResultType::Other(name),
    }
}

/// Translates a result for the client. An unchanged result is returned as it came.
pub fn result<'a>(
    method: &str,
    result: &'a RawValue,
    plan: &ResultPlan<'a>,
) -> Result<JsonRope<'a>, TranslateError> {
    if (plan.from, plan.to) == (Era::Legacy, Era::Legacy) {
        return Ok(JsonRope::from(result));
    }
    let object =
        Object::parse(result).map_err(|reason| TranslateError::Malformed { part: "result", reason })?;
    let mut edit = object.edit();
    match plan.to {
        Era::Legacy => to_legacy(method, &object, &mut edit)?,
        Era::Modern => to_modern(method, &object, &mut edit, plan),
    }
    Ok(edit.finish())
}

/// Content blocks of a tool's result.
const CONTENT: &str = "content";

fn to_legacy<'a>(method: &str, object: &Object<'a>, edit: &mut Edit<'_, 'a>) -> Result<(), TranslateError> {
    if result_type(object) != ResultType::Complete {
        let name = object.get_str(RESULT_TYPE).unwrap_or_default().into_owned();
        return Err(TranslateError::NotComplete(name));
    }
    edit.remove(RESULT_TYPE);
    if methods::is_cacheable(method) {
        edit.remove(TTL_MS).remove(CACHE_SCOPE);
    }
    // Earlier revisions know objects only, and their clients refuse the whole result for any other value.
    // Most servers repeat the data as text content; for the others vmcp does.
    if method == methods::TOOLS_CALL
        && object.text(STRUCTURED_CONTENT).is_some_and(|data| !text::is_object(data))
    {
        edit.remove(STRUCTURED_CONTENT);
        if let Some(content) = with_text(object) {
            edit.set(CONTENT, content);
        }
    }
    if let Some(meta) = object_at(object, META) {
        let mut inner = meta.edit();
        inner.remove(meta::SERVER_INFO).remove(meta::SUBSCRIPTION_ID);
        meta::put_back(edit, inner);
    }
    Ok(())
}

/// Returns the content of a tool's result with its structured content as a text block, unless it has one.
fn with_text(result: &Object<'_>) -> Option<String> {
    let data = text::quoted(result.text(STRUCTURED_CONTENT)?);
    let block = format!("{{\"type\":\"text\",\"text\":{data}}}");
    let content = result.text(CONTENT).unwrap_or("[]").trim();
    let blocks: Vec<&RawValue> = serde_json::from_str(content).ok()?;
    let is_text = |block: &&RawValue| {
        Object::parse(block).is_ok_and(|block| block.get_str("type").as_deref() == Some("text"))
    };
    if blocks.iter().any(is_text) {
        return None;
    }
    let before = content.strip_suffix(']')?.trim_end();
    let separator = if blocks.is_empty() { "" } else { "," };
    Some(format!("{before}{separator}{block}]"))
}

fn to_modern<'a>(method: &str, object: &Object<'a>, edit: &mut Edit<'_, 'a>, plan: &ResultPlan<'a>) {
    match plan.from {
        // A legacy result has no kind; a key of that name would be data of the backend.
        Era::Legacy => _ = edit.set(RESULT_TYPE, r#""complete""#),
        Era::Modern => _ = edit.set_if_absent(RESULT_TYPE, r#""complete""#),
    }
    let kind = if plan.from == Era::Legacy { ResultType::Complete } else { result_type(object) };
    match (kind, plan.request_state) {
        (ResultType::Complete, _) => plan.hints.complete(method, edit),
        (ResultType::InputRequired, Some(state)) => _ = edit.set(REQUEST_STATE, text::quoted(state)),
        _ => {}
    }
    if let Some(info) = plan.server_info {
        match object_at(object, META) {
            None => _ = edit.set(META, format!("{{\"{}\":{info}}}", meta::SERVER_INFO)),
            Some(meta) => {
                let mut inner = meta.edit();
                inner.set_if_absent(meta::SERVER_INFO, info);
                meta::put_back(edit, inner);
            }
        }
    }
}

fn object_at<'a>(object: &Object<'a>, key: &str) -> Option<Object<'a>> {
    Object::parse_valid(object.text(key)?).ok()
}
