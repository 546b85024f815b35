//! Answers of a webhook, in the shape of ToolHive's `Response` and `MutatingResponse`.

use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;

use json_patch::PatchOperation;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::Semaphore;
use vmcp_config::{Webhook as Settings, sanitize};

use super::patch;
use super::question::{AskedCall, PatchedPart};
use super::{WebhookDecision, WebhookFailure, WebhookKind};

/// Most characters of a reason.
const MAX_REASON_CHARS: usize = 300;
/// The only kind of patch.
const JSON_PATCH: &str = "json_patch";
/// Bytes of a patch and the part that it changes, up to which the patch is applied where its answer is read;
/// a longer one is applied on a blocking thread.
const MAX_INLINE_BYTES: usize = 16 * 1024;

/// Patches that may be applied on blocking threads at a time: half of the cores, so that the other half
/// serves connections. Further ones wait.
static PATCH_SLOTS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(available_parallelism().map_or(1, |cores| cores.get().div_ceil(2))));

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
pub(super) async fn decision(
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
    if patch.get().len() + call.patched_text().len() <= MAX_INLINE_BYTES {
        return patched(&patch, &call.patched_part(settings));
    }
    // Held by the work itself: a caller that goes away does not free the thread.
    let slot = PATCH_SLOTS.acquire().await.ok();
    // Copied in its slot: a tree of values takes many times the bytes of its text.
    let part = call.patched_part(settings);
    let work = move || {
        let _slot = slot;
        patched(&patch, &part)
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(WebhookFailure::Patch("its thread has ended".to_owned())))
}

/// Applies a patch.
fn patched(patch: &RawValue, part: &PatchedPart) -> Result<WebhookDecision, WebhookFailure> {
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
    let document = part.document()?;
    let changed = match part {
        PatchedPart::Request { .. } => patch::arguments(document, &operations),
        PatchedPart::Response { .. } => patch::answer(document, &operations),
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
