//! The handler of search_result: the parts of a kept result that fit an intent.

use serde::Serialize;
use serde_json::value::RawValue;
use vmcp_config::OptimTool;

use vmcp_engine::telemetry::calls::Origin;
use vmcp_results::store::StoredResult;
use vmcp_results::{PieceHit, search};

use super::{MAX_REFERENCE_CHARS, REFERENCE, answer_bytes, on_required};
use crate::answer::Answer;
use crate::caller::CallContext;
use crate::own_tools::arguments::own_arguments::OwnArguments;
use crate::own_tools::own_answer::{self, Refusal};

/// Parts of an answer when the caller names no limit.
const DEFAULT_PARTS: usize = 5;
/// Parts of an answer at most.
const MAX_PARTS: usize = 20;
/// Bytes of the text of one part.
const MAX_PART_BYTES: usize = 1_000;

#[derive(Serialize)]
struct Answered {
    success: bool,
    result_ref: String,
    /// Paths or lines of the parts are places for read_result.
    parts: Vec<PieceHit>,
}

/// Answers with the parts that fit, best first.
pub(in crate::own_tools) async fn run(context: CallContext<'_>, arguments: &RawValue) -> Answer {
    let origin = Origin::Own(OptimTool::SearchResult);
    own_answer::answer_later(context, origin, arguments, async |arguments| find(context, arguments).await)
        .await
}

async fn find(context: CallContext<'_>, arguments: &OwnArguments<'_>) -> Result<Answered, Refusal> {
    let limits = &context.snapshot.config.optimizer.limits;
    let result_ref = arguments.required(&REFERENCE, MAX_REFERENCE_CHARS)?;
    let intent = arguments.required(&["intent", "query"], limits.description_chars)?;
    let limit = arguments.count("limit", MAX_PARTS)?.unwrap_or(DEFAULT_PARTS);
    let max_bytes = MAX_PART_BYTES.min(answer_bytes(context) / limit);
    let work = move |stored: &StoredResult| search(&stored.content, &intent, limit, max_bytes);
    let parts = on_required(context, &result_ref, work).await?;
    Ok(Answered { success: true, result_ref, parts })
}
