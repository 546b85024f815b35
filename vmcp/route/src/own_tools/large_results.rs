//! Large results: kept with a reference in their place, or cut.
//!
//! ```text
//! keeping      a result above the threshold → an envelope with its reference
//! references   {"$result_ref": …} in arguments → the value
//! read_result, search_result, process_large_dataset, resource   the ways to read what is kept
//! response_limit   the simpler switch: cuts, and keeps nothing
//! ```
//!
//! A result is its owner's, while the owner may call the tool that it came from; for anyone else, and later,
//! it reads as unknown.

pub(super) mod keeping;
pub(super) mod process_large_dataset;
pub(super) mod read_result;
pub(crate) mod references;
pub(crate) mod resource;
pub(super) mod response_limit;
pub(super) mod search_result;

use serde::Serialize;
use vmcp_engine::engine::kept_results::{SharedStoreError, owner};
use vmcp_results::store::StoredResult;

use super::own_answer::Refusal;
use crate::answer::tool_result::ErrorType;
use crate::call;
use crate::caller::CallContext;

/// Names of the field that holds a reference.
const REFERENCE: [&str; 2] = ["result_ref", "$result_ref"];
/// Names of the field that holds a path.
const PATH: [&str; 3] = ["path", "jsonpath", "json_path"];
/// Longest reference that is looked up, in characters.
const MAX_REFERENCE_CHARS: usize = 64;
/// Most bytes of a value in the answer of an own tool, whatever the threshold: 256 KiB.
const MAX_ANSWER_BYTES: usize = 256 << 10;

/// The failure of a tool that works on results.
#[derive(Serialize)]
struct ResultFailure {
    success: bool,
    error: String,
    error_type: ErrorType,
}

fn failure(error_type: ErrorType, error: impl Into<String>) -> Refusal {
    Refusal::json(&ResultFailure { success: false, error: error.into(), error_type })
}

/// Reasons for a result that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unread {
    /// The reference leads to nothing.
    Unknown,
    /// The store that the replicas share does not answer.
    Away,
}

impl Unread {
    /// Returns the text for the model.
    fn text(self, context: CallContext<'_>) -> String {
        match self {
            Unread::Unknown => unknown(context),
            Unread::Away => "the store of large results does not answer; try again in a minute".to_owned(),
        }
    }

    fn error_type(self) -> ErrorType {
        match self {
            Unread::Unknown => ErrorType::NotFound,
            Unread::Away => ErrorType::BackendError,
        }
    }
}

impl From<SharedStoreError> for Unread {
    fn from(error: SharedStoreError) -> Unread {
        tracing::warn!(%error, "a large result cannot be read");
        Unread::Away
    }
}

/// Runs `work` on a result that the caller may read, in the caller's turn and on a thread that may be kept
/// busy: a result takes many megabytes.
async fn on_stored<T: Send + 'static>(
    context: CallContext<'_>,
    reference: &str,
    work: impl FnOnce(&StoredResult) -> T + Send + 'static,
) -> Result<T, Unread> {
    let owner = owner(&context.caller.principal);
    let work = move |stored: &StoredResult| (stored.origin.tool.clone(), work(stored));
    let done = context.engine.results().work_on(context.snapshot, &owner, reference, work).await?;
    let (tool, done) = done.ok_or(Unread::Unknown)?;
    let tool = context.view.tool(&tool).ok_or(Unread::Unknown)?;
    if call::may_name(context, tool) { Ok(done) } else { Err(Unread::Unknown) }
}

/// As [`on_stored`], for an own tool: the failure of an unknown reference says what may be the reason.
async fn on_required<T: Send + 'static>(
    context: CallContext<'_>,
    reference: &str,
    work: impl FnOnce(&StoredResult) -> T + Send + 'static,
) -> Result<T, Refusal> {
    let done = on_stored(context, reference, work).await;
    done.map_err(|unread| failure(unread.error_type(), unread.text(context)))
}

/// Returns the text for a reference that leads to nothing.
fn unknown(context: CallContext<'_>) -> String {
    let ttl = humantime::format_duration(context.snapshot.config.optimizer.large_results.ttl);
    format!(
        "result_ref is unknown: a result is kept for {ttl}, for the client that got it; call the tool again"
    )
}

/// Returns the most bytes of a value in an answer: a result below the threshold.
fn answer_bytes(context: CallContext<'_>) -> usize {
    let threshold = context.snapshot.config.optimizer.large_results.threshold as usize;
    // Three quarters of the threshold's characters: names and numbers stand around the value.
    (threshold * 3).min(MAX_ANSWER_BYTES)
}

#[cfg(test)]
mod tests;
