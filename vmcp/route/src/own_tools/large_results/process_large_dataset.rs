//! The handler of process_large_dataset: an operation on the rows of a result, or of given data.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use vmcp_config::OptimTool;
use vmcp_engine::engine::kept_results::owner;
use vmcp_engine::telemetry::calls::Origin;
use vmcp_results::dataset::{
    DatasetError, MAX_OPERATION_BYTES, Processed, SqlError, process, reduction_percent,
};
use vmcp_results::envelope::Summary;
use vmcp_results::references::ResultRef;
use vmcp_results::store::StoredResult;
use vmcp_results::{Content, MAX_PATH_CHARS, Path, ReadError, resolve};

use super::{MAX_REFERENCE_CHARS, PATH, REFERENCE, answer_bytes, failure, keeping, on_required};
use crate::answer::Answer;
use crate::caller::CallContext;
use crate::own_tools::arguments::input::InputError;
use crate::own_tools::arguments::own_arguments::OwnArguments;
use crate::own_tools::tool_result::ErrorType;
use crate::own_tools::tool_result::own_answer::{self, Refusal};

/// Time of an operation when the caller names none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time of an operation; a longer one counts as this.
const MAX_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the preview of a result that is kept itself.
const PREVIEW_BYTES: usize = 400;

#[derive(Serialize)]
struct Answered {
    success: bool,
    result: Box<RawValue>,
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
enum Source {
    Given(Box<RawValue>),
    /// A reference to a result.
    Kept(String),
}

/// The rows of an operation: the data, or the part of them that a path leads to.
struct Data {
    source: Source,
    path: Option<Path>,
}

/// An operation on data, with its parameters and its time.
struct Job {
    path: Option<Path>,
    operation: String,
    parameters: Map<String, Value>,
    timeout: Duration,
}

impl Job {
    fn run(self, content: &Content) -> Result<Processed, JobError> {
        let data = resolve(content, self.path.as_ref())?;
        Ok(process(&data, &self.operation, &self.parameters, self.timeout)?)
    }
}

/// Errors of a [`Job`].
#[derive(Debug, thiserror::Error)]
enum JobError {
    #[error(transparent)]
    Path(#[from] ReadError),
    #[error(transparent)]
    Operation(#[from] DatasetError),
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
    let Data { source, path } = data(arguments)?;
    let job = Job { path, operation: operation.clone(), parameters, timeout };
    let (tool, done) = match source {
        Source::Given(data) => {
            let work = move || job.run(&Content::of_json(&data));
            let done = context.engine.results().work(&owner(&context.caller.principal), work).await;
            (None, done.ok_or_else(|| failure(ErrorType::BackendError, "the data cannot be processed"))?)
        }
        Source::Kept(result_ref) => {
            let work = move |stored: &StoredResult| (stored.origin.tool.clone(), job.run(&stored.content));
            let (tool, done) = on_required(context, &result_ref, work).await?;
            (Some(tool), done)
        }
    };
    let done = done.map_err(|error| failure(error_type(&error), error.to_string()))?;
    let result = shown(context, tool, done.value).await?;
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
async fn shown(
    context: CallContext<'_>,
    tool: Option<String>,
    value: Box<RawValue>,
) -> Result<Box<RawValue>, Refusal> {
    if value.get().len() <= answer_bytes(context) {
        return Ok(value);
    }
    let too_large = || {
        let error = "operation: the answer is too large to be sent or kept; add a limit or group the rows";
        failure(ErrorType::InvalidInput, error)
    };
    // Given data came from the caller, who has them: only a result's own can be kept.
    let tool = tool.ok_or_else(too_large)?;
    let kept = keeping::keep(context, tool, Content::of_json(&value)).await.ok_or_else(too_large)?;
    let summary = Summary::new(&kept.reference, &kept.stored.content, kept.seconds, PREVIEW_BYTES);
    to_raw_value(&summary).map_err(|error| failure(ErrorType::BackendError, error.to_string()))
}

fn error_type(error: &JobError) -> ErrorType {
    match error {
        JobError::Operation(DatasetError::Sql(SqlError::Time(_))) => ErrorType::TimeoutError,
        _ => ErrorType::InvalidInput,
    }
}

fn data(arguments: &OwnArguments<'_>) -> Result<Data, Refusal> {
    let result_ref = arguments.text(&REFERENCE, MAX_REFERENCE_CHARS)?;
    let path = arguments.text(&PATH, MAX_PATH_CHARS)?;
    let data: Option<Box<RawValue>> = arguments.read("data", "a JSON value, or a result_ref")?;
    let named = data.as_deref().and_then(ResultRef::read_data);
    let contradiction = |first, second| Err(InputError::Contradiction { first, second }.into());
    let (source, within) = match (result_ref, named, data) {
        (Some(result_ref), None, None) => (Source::Kept(result_ref), None),
        (None, Some(ResultRef { result_ref, path }), _) => (Source::Kept(result_ref), path),
        (Some(result_ref), Some(named), _) if named.result_ref == result_ref => {
            (Source::Kept(result_ref), named.path)
        }
        (Some(_), _, Some(_)) => return contradiction("result_ref", "data"),
        (None, None, Some(data)) => (Source::Given(data), None),
        (_, _, None) => return Err(InputError::Missing("data").into()),
    };
    if within.is_some() && path.is_some() && within != path {
        return contradiction("path", "data.path");
    }
    let path = path.or(within).as_deref().map(Path::parse).transpose();
    let path = path.map_err(|error| failure(ErrorType::InvalidInput, error.to_string()))?;
    Ok(Data { source, path })
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
