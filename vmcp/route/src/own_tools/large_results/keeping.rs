//! Keeps a result of call_tool that is above the threshold, and writes the envelope in its place.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::task::spawn_blocking;
use vmcp_engine::engine::kept_results::{KeptResult, owner};
use vmcp_model::catalog::CatalogTool;
use vmcp_results::store::{KeepError, Origin};
use vmcp_results::{Content, Split, envelope, split};
use vmcp_wire::payload::Payload;

use crate::caller::CallContext;

/// Characters of a token; a character has at least one byte, so a result of fewer bytes is below the
/// threshold.
const BYTES_PER_TOKEN: u64 = 4;

/// True if results of a tool may be kept, so that they must have arrived as a whole. `asked`: the caller
/// wants the result kept, whatever its size and schema.
pub(in crate::own_tools) fn applies(context: CallContext<'_>, tool: &CatalogTool, asked: bool) -> bool {
    let is_on = context.snapshot.config.optimizer.large_results.enabled;
    // In place of a declared shape, an envelope would fail in clients that validate.
    is_on && (asked || tool.definition.output_schema.is_none())
}

/// Returns the envelope of a result, or the result as it is: it is small, failed, is not understood, or
/// exceeds the bounds of kept results by itself.
pub(in crate::own_tools) async fn enveloped(
    context: CallContext<'_>,
    tool: &CatalogTool,
    result: Payload,
    asked: bool,
) -> Payload {
    let threshold = u64::from(context.snapshot.config.optimizer.large_results.threshold);
    let is_small = (result.size() as u64).div_ceil(BYTES_PER_TOKEN) <= threshold;
    if !applies(context, tool, asked) || result.is_tool_error() || !asked && is_small {
        return result;
    }
    // Shared: a clone has a text of its own, of many megabytes.
    let result = Arc::new(result);
    match kept(context, tool, Arc::clone(&result), asked).await {
        Some(envelope) => Payload::from(envelope),
        None => Arc::unwrap_or_clone(result),
    }
}

/// Keeps a result, and returns its envelope.
async fn kept(
    context: CallContext<'_>,
    tool: &CatalogTool,
    result: Arc<Payload>,
    asked: bool,
) -> Option<Box<RawValue>> {
    let threshold = u64::from(context.snapshot.config.optimizer.large_results.threshold);
    let split = move || {
        // Parsed apart: a payload keeps its parsed text until another thread drops it.
        let bytes = result.bytes();
        let Split { content, media } = split(serde_json::from_slice(&bytes).ok()?)?;
        let is_kept = !content.is_empty() && (asked || content.tokens() > threshold);
        is_kept.then(|| Split { content: content.in_own_pages(), media })
    };
    let Split { content, media } = spawn_blocking(split).await.ok().flatten()?;
    let (owner, origin) = (owner(&context.caller.principal), Origin { tool: tool.name.clone() });
    let kept = context.engine.results().keep(context.snapshot, owner, origin, content).await;
    let name = tool.name.clone();
    let write = move |kept: KeptResult| {
        envelope::write(&kept.reference, &kept.stored.content, &media, &name, kept.seconds)
    };
    match kept {
        Ok(kept) => {
            let envelope = spawn_blocking(move || write(kept)).await.ok()?;
            context.engine.metrics().large_results.inc();
            Some(envelope)
        }
        Err(error @ KeepError::TooLarge { .. }) => {
            context.engine.metrics().large_results_too_large.inc();
            tracing::warn!(tool = tool.name.as_str(), %error, "a large result is sent as it came");
            None
        }
        Err(KeepError::Interrupted) => None,
    }
}

/// Keeps content that an own tool made from results of `tool`; `None` if it exceeds the bounds.
pub(super) async fn keep(context: CallContext<'_>, tool: String, kept: Content) -> Option<KeptResult> {
    let owner = owner(&context.caller.principal);
    context.engine.results().keep(context.snapshot, owner, Origin { tool }, kept.in_own_pages()).await.ok()
}
