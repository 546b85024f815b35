//! The handler of process_large_dataset: an operation on the rows of a result, or of given data.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use vmcp_config::OptimTool;
use vmcp_engine::engine::kept_results::owner;
use vmcp_engine::telemetry::calls::Origin;
use vmcp_results::dataset::{DatasetError, MAX_OPERATION_BYTES, SqlError, process, reduction_percent};
use vmcp_results::envelope::Summary;
use vmcp_results::references::ResultRef;
use vmcp_results::store::StoredResult;
use vmcp_results::{Content, Path, ReadError, resolve};

use super::{MAX_REFERENCE_CHARS, REFERENCE, answer_bytes, failure, keeping, on_required};
use crate::answer::Answer;
use crate::caller::CallContext;
use crate::own_tools::arguments::input::InputError;
use crate::own_tools::arguments::own_arguments::OwnArguments;
use crate::own_tools::listings::own_answer::{self, Refusal};
use crate::own_tools::tool_result::ErrorType;

/// Time of an operation when the caller names none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time of an operation; a longer one counts as this.
const MAX_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the preview of a result that is kept itself.
const PREVIEW_BYTES: usize = 400;

#[derive(Serialize)]
struct Answered {
    success: bool,
    result: Value,
    original_size: usize,
    processed_size: usize,
    reduction_percent: f64,
    /// Seconds.
    execution_time: f64,
    operation: String,
    /// Parameters without a meaning for the operation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unused_parameters: Vec<String>,
}

/// The data of an operation.
enum Data {
    Given(Box<RawValue>),
    /// A reference.
    Kept(ResultRef),
}

/// Answers with the result of an operation.
pub(in crate::own_tools) async fn run(context: CallContext<'_>, arguments: &RawValue) -> Answer {
    let origin = Origin::Own(OptimTool::ProcessLargeDataset);
    own_answer::answer_later(context, origin, arguments, async |arguments| {
        processed(context, arguments).await
    })
    .await
}

async fn processed(context: CallContext<'_>, arguments: &OwnArguments<'_>) -> Result<Answered, Refusal> {
    let operation = arguments.required(&["operation"], MAX_OPERATION_BYTES)?;
    let parameters = parameters(arguments)?;
    let timeout = timeout(arguments)?;
    let begun = Instant::now();
    let words = operation.clone();
    let (tool, done) = match data(arguments)? {
        Data::Given(data) => {
            let work = move || process(&data, &words, &parameters, timeout);
            let done = context.engine.results().work(&owner(&context.caller.principal), work).await;
            (None, done.ok_or_else(|| failure(ErrorType::BackendError, "the data cannot be processed"))?)
        }
        Data::Kept(reference) => {
            let invalid = |error: String| failure(ErrorType::InvalidInput, error);
            let path = reference.path.as_deref().map(Path::parse).transpose();
            let path = path.map_err(|error| invalid(error.to_string()))?;
            let work = move |stored: &StoredResult| {
                let data = resolve(&stored.content, path.as_ref())?;
                Ok((stored.origin.tool.clone(), process(&data, &words, &parameters, timeout)))
            };
            let done = on_required(context, &reference.result_ref, work).await?;
            let (tool, done) = done.map_err(|error: ReadError| invalid(error.to_string()))?;
            (Some(tool), done)
        }
    };
    let done = done.map_err(|error| failure(error_type(&error), error.to_string()))?;
    let result = shown(context, tool, &done.value).await?;
    Ok(Answered {
        success: true,
        result,
        original_size: done.original_size,
        processed_size: done.processed_size,
        reduction_percent: reduction_percent(done.original_size, done.processed_size),
        execution_time: (begun.elapsed().as_secs_f64() * 1e4).round() / 1e4,
        operation,
        unused_parameters: done.unused_parameters,
    })
}

/// Returns the result as it is, or if it is large a summary with a reference of its own.
async fn shown(context: CallContext<'_>, tool: Option<String>, value: &RawValue) -> Result<Value, Refusal> {
    if value.get().len() <= answer_bytes(context) {
        return Ok(serde_json::from_str(value.get()).unwrap_or_default());
    }
    let too_large = || {
        let error = "operation: the answer is too large to be sent or kept; add a limit or group the rows";
        failure(ErrorType::InvalidInput, error)
    };
    // Given data came from the caller, who has them: only a result's own can be kept.
    let tool = tool.ok_or_else(too_large)?;
    let kept = keeping::keep(context, tool, Content::of_json(value)).await.ok_or_else(too_large)?;
    let summary = Summary::new(&kept.reference, &kept.stored.content, kept.seconds, PREVIEW_BYTES);
    serde_json::to_value(summary).map_err(|_| too_large())
}

fn error_type(error: &DatasetError) -> ErrorType {
    match error {
        DatasetError::Sql(SqlError::Time(_)) => ErrorType::TimeoutError,
        _ => ErrorType::InvalidInput,
    }
}

fn data(arguments: &OwnArguments<'_>) -> Result<Data, Refusal> {
    if let Some(result_ref) = arguments.text(&REFERENCE, MAX_REFERENCE_CHARS)? {
        return Ok(Data::Kept(ResultRef { result_ref, path: None }));
    }
    let data: Option<Box<RawValue>> = arguments.read("data", "a JSON value, or a result_ref")?;
    let data = data.ok_or(InputError::Missing("data"))?;
    Ok(ResultRef::read_data(&data).map_or(Data::Given(data), Data::Kept))
}

/// Reads the parameters: an object, or a string that holds one as JSON.
fn parameters(arguments: &OwnArguments<'_>) -> Result<Map<String, Value>, Refusal> {
    const EXPECTED: &str = "an object";
    let Some(given) = arguments.read::<Value>("parameters", EXPECTED)? else { return Ok(Map::new()) };
    let parsed = match given {
        Value::String(text) => serde_json::from_str(&text).ok(),
        other => Some(other),
    };
    match parsed {
        Some(Value::Object(parameters)) => Ok(parameters),
        _ => Err(InputError::invalid("parameters", EXPECTED).into()),
    }
}

fn timeout(arguments: &OwnArguments<'_>) -> Result<Duration, Refusal> {
    let seconds: Option<f64> = arguments.read("timeout", "a number of seconds")?;
    let seconds = seconds.filter(|seconds| *seconds > 0.0);
    Ok(seconds.map_or(DEFAULT_TIMEOUT, |seconds| {
        Duration::try_from_secs_f64(seconds).unwrap_or(MAX_TIMEOUT).min(MAX_TIMEOUT)
    }))
}
