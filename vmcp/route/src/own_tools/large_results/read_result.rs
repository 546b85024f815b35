//! The handler of read_result: a part of a kept result.

use serde::Serialize;
use serde_json::value::RawValue;
use vmcp_config::OptimTool;

use vmcp_engine::telemetry::calls::Origin;
use vmcp_results::store::StoredResult;
use vmcp_results::{MAX_PATH_CHARS, Path, ReadPart, Slice, read};

use super::{MAX_REFERENCE_CHARS, PATH, REFERENCE, answer_bytes, failure, on_required};
use crate::answer::Answer;
use crate::answer::tool_result::ErrorType;
use crate::caller::CallContext;
use crate::own_tools::arguments::own_arguments::OwnArguments;
use crate::own_tools::own_answer::{self, Refusal};

#[derive(Serialize)]
struct Answered {
    success: bool,
    result_ref: String,
    #[serde(flatten)]
    part: ReadPart,
}

/// Answers with a part of a result.
pub(in crate::own_tools) async fn run(context: CallContext<'_>, arguments: &RawValue) -> Answer {
    let origin = Origin::Own(OptimTool::ReadResult);
    own_answer::answer_later(context, origin, arguments, async |arguments| {
        read_part(context, arguments).await
    })
    .await
}

async fn read_part(context: CallContext<'_>, arguments: &OwnArguments<'_>) -> Result<Answered, Refusal> {
    let result_ref = arguments.required(&REFERENCE, MAX_REFERENCE_CHARS)?;
    let path = arguments.text(&PATH, MAX_PATH_CHARS)?;
    let offset = arguments.read::<usize>("offset", "a whole number from 0")?.unwrap_or(0);
    let limit = arguments.count("limit", usize::MAX)?;
    let invalid = |error: String| failure(ErrorType::InvalidInput, error);
    let path = path.as_deref().map(Path::parse).transpose().map_err(|error| invalid(error.to_string()))?;
    let max_bytes = answer_bytes(context);
    let work = move |stored: &StoredResult| {
        read(&stored.content, &Slice { path: path.as_ref(), offset, limit, max_bytes })
    };
    let part = on_required(context, &result_ref, work).await?.map_err(|error| invalid(error.to_string()))?;
    Ok(Answered { success: true, result_ref, part })
}
