//! Answers of a webhook, in the shape of ToolHive's `Response` and `MutatingResponse`.

use std::sync::Arc;

use json_patch::PatchOperation;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use vmcp_config::{Webhook as Settings, sanitize};

use super::patch;
use super::question::AskedCall;
use super::{WebhookDecision, WebhookFailure, WebhookKind};

/// Most characters of a reason.
const MAX_REASON_CHARS: usize = 300;
/// The only kind of patch.
const JSON_PATCH: &str = "json_patch";

/// An answer as it is written. A repeated key is an error; unknown keys are not looked at.
#[derive(Deserialize)]
struct Answer {
    /// Absent: denied, as Go reads it.
    #[serde(default)]
    allowed: bool,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    patch_type: Option<String>,
    #[serde(default)]
    patch: Option<Box<RawValue>>,
}

/// Reads an answer about a call.
pub(super) fn decision(
    kind: WebhookKind,
    call: &AskedCall<'_>,
    settings: &Settings,
    answer: &[u8],
) -> Result<WebhookDecision, WebhookFailure> {
    // A list would be read as the values in their order.
    if answer.trim_ascii_start().first() != Some(&b'{') {
        return Err(WebhookFailure::Unreadable("it is no object"));
    }
    let unreadable = |_| WebhookFailure::Unreadable("it is no JSON, or a value has another type");
    let answer: Answer = serde_json::from_slice(answer).map_err(unreadable)?;
    if !answer.allowed {
        return Ok(WebhookDecision::Denied { reason: reason(answer.message, answer.reason) });
    }
    let patch_type = answer.patch_type.as_deref().unwrap_or_default();
    let (false, Some(patch)) = (patch_type.is_empty() || kind == WebhookKind::Validating, answer.patch)
    else {
        return Ok(WebhookDecision::Allowed);
    };
    if patch_type != JSON_PATCH {
        return Err(WebhookFailure::Unreadable("its `patch_type` is not `json_patch`"));
    }
    let operations = serde_json::from_str::<Option<Vec<PatchOperation>>>(patch.get());
    // The error's own text quotes the answer, which may hold values that neither log nor client may show.
    let misread = |error: serde_json::Error| {
        let (line, column) = (error.line(), error.column());
        WebhookFailure::Patch(format!("`patch` is no list of operations, at line {line}, column {column}"))
    };
    let operations = operations.map_err(misread)?.unwrap_or_default();
    if operations.is_empty() {
        return Ok(WebhookDecision::Allowed);
    }
    let changed = match call.answer {
        None => patch::arguments(call.request_document(settings)?, &operations),
        Some(answer) => patch::answer(answer.document()?, &operations),
    };
    match changed.map_err(WebhookFailure::Patch)? {
        None => Ok(WebhookDecision::Allowed),
        Some(value) => Ok(WebhookDecision::Changed(raw(&value)?)),
    }
}

fn raw(value: &Value) -> Result<Box<RawValue>, WebhookFailure> {
    to_raw_value(value).map_err(|error| WebhookFailure::Patch(error.to_string()))
}

/// Returns the words for a person, else those for a machine.
fn reason(message: Option<String>, reason: Option<String>) -> Option<Arc<str>> {
    let mut texts = [message, reason].into_iter().flatten().map(|text| sanitize::text(&text));
    let text = texts.find(|text| !text.is_empty())?;
    Some(text.chars().take(MAX_REASON_CHARS).collect::<String>().into())
}
