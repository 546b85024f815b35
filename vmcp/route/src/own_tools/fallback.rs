//! Fallback of call_tool: the answer to a failed call names the tools that may take its place, and with
//! `optimizer.autoRetryFallback: SafeOnly` the first of them is called, once.
//!
//! A retry is safe if the tool that is called instead only reads, and the failed call cannot have changed
//! anything: its tool only reads too, or was never asked. An idempotent tool is not safe: overwriting a file
//! twice is idempotent. A retry passes the call seam like every other call, so that the policy decides about
//! the tool that really runs.

pub(super) mod alternatives;
pub(super) mod call_failure;

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use vmcp_backend::Transmission;
use vmcp_config::AutoRetryFallback;
use vmcp_json::object::Object;
use vmcp_model::catalog::CatalogTool;
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::payload::Payload;

use crate::answer::tool_result::TextBlock;
use crate::answer::{Answer, Content};
use crate::call;
use crate::caller::CallContext;
use crate::router::BackendTarget;
use alternatives::{Alternative, Suggestion};
use vmcp_engine::telemetry::calls::Origin;

/// Key of the alternatives, or of the original failure, in `_meta` of a result.
const META_KEY: &str = "vmcp/fallback";
/// Bytes of a result above which it is not looked into for being empty.
const MAX_EMPTY_BYTES: usize = 4096;
/// Bytes of a result above which it is not checked against the tool's output schema.
const MAX_CHECKED_BYTES: usize = 64 * 1024;

/// A failed call of a tool.
pub(super) struct FailedCall<'a> {
    pub(super) tool: &'a Arc<CatalogTool>,
    /// Text of the error.
    pub(super) error: String,
    /// Part of its way that the call made.
    pub(super) transmission: Transmission,
    /// Arguments of the call.
    pub(super) parameters: &'a RawValue,
}

/// Returns the tools to name in the answer to a failed call; none if that is switched off, or the request
/// goes on with one backend's question.
pub(super) fn alternatives<'a>(context: CallContext<'a>, failed: &Arc<CatalogTool>) -> Vec<Alternative<'a>> {
    if !are_named(context) {
        return Vec::new();
    }
    alternatives::find(context, failed, context.snapshot.config.optimizer.max_fallbacks)
}

/// True if answers to failed calls name alternatives.
fn are_named(context: CallContext<'_>) -> bool {
    context.snapshot.config.optimizer.max_fallbacks > 0 && context.caller.continues.is_none()
}

/// Calls the first alternative in place of the failed tool, if that is configured and safe. Returns its tool
/// and its successful answer; `None` leaves the failure as it is.
pub(super) async fn retry<'a>(
    context: CallContext<'a>,
    failed: &FailedCall<'_>,
    alternatives: &[Alternative<'a>],
    params: &OwnedParams,
) -> Option<(&'a Arc<CatalogTool>, Answer)> {
    if context.snapshot.config.optimizer.auto_retry_fallback == AutoRetryFallback::Off {
        return None;
    }
    let harmless = is_safe(failed.tool) || failed.transmission == Transmission::NotSent;
    let tool = alternatives.first().map(|alternative| alternative.tool)?;
    if !harmless || !is_safe(tool) {
        return None;
    }
    context.snapshot.check(tool).check(tool, failed.parameters).await.ok()?;
    let target = BackendTarget::tool(context.snapshot, tool);
    let record = context.start_record(Origin::Fallback);
    let authorized = call::authorize(context, record, target, Some(failed.parameters.get())).ok()?;
    let response = authorized.call(params).await.ok()?;
    let answer = Answer::relayed(&tool.backend, response);
    let Content::Result(result) = &answer.content else { return None };
    if answer.pending.is_some() || result.is_tool_error() {
        return None;
    }
    tracing::info!(
        failed = failed.tool.name.as_str(),
        called = tool.name.as_str(),
        "a similar tool was called instead"
    );
    context.engine.metrics().fallback_calls.inc();
    let announced = announced(result, failed, tool)?;
    Some((tool, Answer { content: Content::Result(announced.into()), era: answer.era, pending: None }))
}

/// True if a call of the tool changes nothing, by its server's word or an override. A tool that also
/// declares to destroy something contradicts itself.
pub(super) fn is_safe(tool: &CatalogTool) -> bool {
    let hints = &tool.annotations;
    hints.read_only_hint == Some(true) && hints.destructive_hint != Some(true)
}

/// Says in a result which tool it is of, and why: in a text block before it and in `_meta`.
fn announced(result: &RawValue, failed: &FailedCall<'_>, tool: &CatalogTool) -> Option<Box<RawValue>> {
    #[derive(Serialize)]
    struct Meta<'a> {
        original_error: &'a str,
        original: Called<'a>,
        fallback: Called<'a>,
    }
    #[derive(Serialize)]
    struct Called<'a> {
        server: &'a str,
        tool: &'a str,
    }
    let called = |tool: &CatalogTool| (tool.backend.to_string(), tool.name.clone());
    let ((server, name), (other_server, other_name)) = (called(failed.tool), called(tool));
    let meta = Meta {
        original_error: &failed.error,
        original: Called { server: &server, tool: &name },
        fallback: Called { server: &other_server, tool: &other_name },
    };
    let notice = format!("{name} failed: {}. This is the result of {other_name} instead.", failed.error);
    edited(result, BlockPosition::First, &notice, &to_raw_value(&meta).ok()?, None)
}

/// Adds the alternatives to a failed or empty result.
pub(super) fn with_suggestions(
    result: &RawValue,
    error: &str,
    suggestions: &[Suggestion<'_>],
) -> Option<Box<RawValue>> {
    #[derive(Serialize)]
    struct Failure<'a> {
        success: bool,
        error: &'a str,
        fallback_suggestions: &'a [Suggestion<'a>],
    }
    let failure = Failure { success: false, error, fallback_suggestions: suggestions };
    let json = to_raw_value(&failure).ok()?;
    let structured = Object::parse(result).ok()?.get("isError").is_some_and(|is| is.get() == "true");
    edited(result, BlockPosition::Last, json.get(), &json, structured.then_some(&json))
}

/// Place of a text block among the blocks of a result.
#[derive(Clone, Copy)]
enum BlockPosition {
    First,
    Last,
}

/// Adds a text block and a key of `_meta` to a result, and structured content if it has none.
fn edited(
    result: &RawValue,
    place: BlockPosition,
    text: &str,
    meta: &RawValue,
    structured: Option<&RawValue>,
) -> Option<Box<RawValue>> {
    let object = Object::parse(result).ok()?;
    let blocks: Vec<&RawValue> = match object.get("content") {
        Some(content) => serde_json::from_str(content.get()).ok()?,
        None => Vec::new(),
    };
    let block = to_raw_value(&TextBlock::new(text)).ok()?;
    let blocks: Vec<&RawValue> = match place {
        BlockPosition::First => std::iter::once(&*block).chain(blocks).collect(),
        BlockPosition::Last => blocks.into_iter().chain([&*block]).collect(),
    };
    let metadata = match object.get("_meta").filter(|meta| meta.get() != "null") {
        Some(known) => {
            let known = Object::parse(known).ok()?;
            let mut edit = known.edit();
            edit.set(META_KEY, meta.get().to_owned());
            edit.finish().into_raw().ok()?.get().to_owned()
        }
        None => format!(r#"{{"{META_KEY}":{}}}"#, meta.get()),
    };
    let mut edit = object.edit();
    edit.set("content", to_raw_value(&blocks).ok()?.get().to_owned());
    edit.set("_meta", metadata);
    if let Some(structured) = structured.filter(|_| object.get("structuredContent").is_none()) {
        edit.set("structuredContent", structured.get().to_owned());
    }
    edit.finish().into_raw().ok()
}

/// True for a result without content: no structured content, and no block but blank text.
pub(super) fn is_empty(result: &Payload) -> bool {
    if result.size() > MAX_EMPTY_BYTES || result.contains("\"structuredContent\"") {
        return false;
    }
    let Ok(object) = Object::parse(result) else { return false };
    let Some(content) = object.get("content") else { return object.get("structuredContent").is_none() };
    let Ok(blocks) = serde_json::from_str::<Vec<&RawValue>>(content.get()) else { return false };
    let blank = |block: &&RawValue| {
        let block = Object::parse(block).unwrap_or_default();
        block.get_str("text").is_some_and(|text| text.trim().is_empty())
    };
    blocks.iter().all(blank)
}

/// Says in which way a result without an error breaks the tool's output schema; `None` if it fits, is not
/// checked, or nothing would follow.
pub(super) async fn violation(
    context: CallContext<'_>,
    tool: &Arc<CatalogTool>,
    result: &Payload,
) -> Option<String> {
    if tool.definition.output_schema.is_none() || result.size() > MAX_CHECKED_BYTES || !are_named(context) {
        return None;
    }
    let object = Object::parse(result).ok()?;
    let Some(structured) = object.get("structuredContent") else {
        return Some("the answer lacks the structured content that the tool promises".to_owned());
    };
    let checked = context.snapshot.check(tool).check_result(tool, structured).await;
    checked.err().map(|violations| format!("the answer does not fit the tool's output schema: {violations}"))
}

#[cfg(test)]
mod tests;
