//! The subject of a request: the tool, prompt, resource or task that its parameters name.

use std::borrow::Cow;

use vmcp_json::object::Object;
use vmcp_json::text;

use crate::message::methods;
use crate::message::owned::{OwnedParams, Splice};

const REFERENCE: &str = "ref";

/// Returns the key under which the parameters of a method name the subject. The header `Mcp-Name` repeats its
/// value.
#[must_use]
pub fn key(method: &str) -> Option<&'static str> {
    match method {
        methods::TOOLS_CALL | methods::PROMPTS_GET => Some("name"),
        methods::RESOURCES_READ | methods::SUBSCRIBE | methods::UNSUBSCRIBE => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" | "tasks/result" => Some("taskId"),
        _ => None,
    }
}

/// Returns the subject of a request, if the method has one and the parameters name it.
///
/// For `completion/complete` it is the prompt's name or the template's URI in `ref`.
#[must_use]
pub fn get<'a>(method: &str, params: &Object<'a>) -> Option<Cow<'a, str>> {
    if method == methods::COMPLETE {
        let reference = reference(params)?;
        return reference.get_str(reference_key(&reference)?);
    }
    params.get_str(key(method)?)
}

/// Returns the subject that owned parameters name, see [`get`].
#[must_use]
pub fn of<'a>(method: &str, params: &'a OwnedParams) -> Option<Cow<'a, str>> {
    if method == methods::COMPLETE {
        let reference = Object::parse_valid(params.get(REFERENCE)?).ok()?;
        return reference.get_str(reference_key(&reference)?);
    }
    params.get_str(key(method)?)
}

/// Replaces the subject, unless it is the same already: an unchanged request keeps its bytes.
pub(crate) fn splice<'a>(method: &str, params: &'a OwnedParams, splice: &mut Splice<'a>, subject: &str) {
    if method != methods::COMPLETE {
        if let Some(key) = key(method)
            && params.get_str(key).as_deref() != Some(subject)
        {
            splice.set(key, text::quoted(subject));
        }
    } else if let Some(reference) = params.get(REFERENCE).and_then(|text| Object::parse_valid(text).ok())
        && let Some(key) = reference_key(&reference)
        && reference.get_str(key).as_deref() != Some(subject)
    {
        let mut inner = reference.edit();
        inner.set(key, text::quoted(subject));
        splice.set(REFERENCE, inner.finish().into_cow().into_owned());
    }
}

fn reference<'a>(params: &Object<'a>) -> Option<Object<'a>> {
    Object::parse_valid(params.text(REFERENCE)?).ok()
}

fn reference_key(reference: &Object<'_>) -> Option<&'static str> {
    match reference.get_str("type")?.as_ref() {
        "ref/prompt" => Some("name"),
        "ref/resource" => Some("uri"),
        _ => None,
    }
}
