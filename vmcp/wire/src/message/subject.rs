//! The subject of a request: the tool, prompt, resource or task that its parameters name.

use std::borrow::Cow;

use vmcp_json::object::Object;

use crate::message::methods;

/// Key of the reference of `completion/complete`.
pub(super) const REFERENCE: &str = "ref";

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

fn reference<'a>(params: &Object<'a>) -> Option<Object<'a>> {
    Object::parse_valid(params.text(REFERENCE)?).ok()
}

/// Returns the key under which a reference names its subject.
pub(super) fn reference_key(reference: &Object<'_>) -> Option<&'static str> {
    match reference.get_str("type")?.as_ref() {
        "ref/prompt" => Some("name"),
        "ref/resource" => Some("uri"),
        _ => None,
    }
}
