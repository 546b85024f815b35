//! The handler of process_large_dataset: an operation on the rows of a result, or of given data.
//!
//! ```text
//! here       words and `sql:`, by SQLite
//! python     `python:`, by code mode
//! by_model   words that a language model turns into SQL
//! ```

mod by_model;
mod prompt;
mod python;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use vmcp_config::{DatasetModel, OptimTool};
use vmcp_engine::engine::kept_results::owner;
use vmcp_engine::telemetry::calls::Origin;
use vmcp_results::dataset::{
    DatasetError, MAX_OPERATION_BYTES, Processed, SqlError, is_code, process, python_script,
    reduction_percent,
};
use vmcp_results::envelope::Summary;
use vmcp_results::references::ResultRef;
use vmcp_results::store::StoredResult;
use vmcp_results::{Content, MAX_PATH_CHARS, Path, ReadError, resolve};
use vmcp_script::picture::Picture;

use self::by_model::ByModel;
use super::{MAX_REFERENCE_CHARS, PATH, REFERENCE, answer_bytes, failure, keeping, on_required};
use crate::answer::Answer;
use crate::answer::tool_result::{self, ErrorType};
use crate::caller::CallContext;
use crate::own_tools::arguments::input::InputError;
use crate::own_tools::arguments::own_arguments::OwnArguments;
use crate::own_tools::listings::language_model::{self, LanguageModel};
use crate::own_tools::own_answer::{self, Refusal};

/// Time of an operation when the caller names none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time of an operation; a longer one counts as this.
const MAX_TIMEOUT: Duration = Duration::from_secs(30);
/// Error of a call for a language model that the server does not allow.
const MODEL_IS_OFF: &str =
    "engine: the server's `optimizer.largeResults.llm` is off; use words, or `sql: SELECT … FROM data`";
/// Key of the query that a language model wrote, in `_meta` of a result.
const CODE_META_KEY: &str = "vmcp/code";
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
    /// `llm` if a language model wrote the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<Engine>,
    /// The query that a language model wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    /// Parameters without a meaning for the operation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unused_parameters: Vec<String>,
    /// Text that a script printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    /// The reason for which another engine than the configured one ran a script.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    /// Number of the pictures behind the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pictures: Option<usize>,
    #[serde(skip)]
    drawn: Vec<Picture>,
}

/// The reader of an operation in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Engine {
    /// The grammar of this server.
    Words,
    /// A language model.
    Llm,
}

/// The rows of an operation: the data, or the part of them that a path leads to.
struct Data {
    source: Source,
    path: Option<Path>,
}

/// The data of an operation.
enum Source {
    Given(Arc<RawValue>),
    /// A reference to a result.
    Kept(String),
}

/// The end of an operation.
struct Done {
    /// The tool that kept data came from.
    tool: Option<String>,
    processed: Processed,
    /// The query that a language model wrote.
    query: Option<String>,
    beside: Beside,
}

/// The things beside the result of a script.
#[derive(Default)]
struct Beside {
    output: Option<String>,
    warning: Option<String>,
    pictures: Vec<Picture>,
}

/// An operation, with its parameters and its time.
struct Task {
    operation: String,
    parameters: Map<String, Value>,
    timeout: Duration,
}

/// Errors of an operation on data.
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
    let work = async |arguments: &OwnArguments<'_>| processed(context, arguments).await;
    own_answer::answer_as(context, origin, arguments, work, with_pictures).await
}

/// Makes the result of an answer. For programs that read `_meta`, it has the operation with which a call runs
/// the query of a language model again.
fn with_pictures(answered: &Answered, json: &RawValue) -> Box<RawValue> {
    let result = tool_result::illustrated(json, &answered.drawn, false);
    match &answered.query {
        Some(query) => tool_result::with_meta(result, CODE_META_KEY, &format!("sql: {query}")),
        None => result,
    }
}

async fn processed(context: CallContext<'_>, arguments: &OwnArguments<'_>) -> Result<Answered, Refusal> {
    let operation = arguments.required(&["operation"], MAX_OPERATION_BYTES)?;
    let engine: Option<Engine> = arguments.read("engine", r#""words" or "llm""#)?;
    let task = Task { operation, parameters: parameters(arguments)?, timeout: timeout(arguments)? };
    let data = data(arguments)?;
    let begun = Instant::now();
    let Done { tool, processed: done, query, beside } = execute(context, engine, &data, &task).await?;
    let result = shown(context, tool, done.value).await?;
    Ok(Answered {
        success: true,
        result,
        original_size: done.original_size,
        processed_size: done.processed_size,
        reduction_percent: reduction_percent(done.original_size, done.processed_size),
        execution_time: (begun.elapsed().as_secs_f64() * 1e4).round() / 1e4,
        operation: task.operation,
        engine: query.as_ref().map(|_| Engine::Llm),
        query,
        unused_parameters: done.unused_parameters,
        output: beside.output,
        warning: beside.warning,
        pictures: python::count(&beside.pictures),
        drawn: beside.pictures,
    })
}

/// Runs a task by the engine that the caller names. Without a name, the model of `optimizer.llm` reads words
/// that the grammar does not understand where `optimizer.largeResults.llm` is [`DatasetModel::Auto`].
async fn execute(
    context: CallContext<'_>,
    engine: Option<Engine>,
    data: &Data,
    task: &Task,
) -> Result<Done, Refusal> {
    // Where code mode is off, [`process`] refuses the script.
    if let Some(script) = python_script(&task.operation).filter(|script| python::is_on(context, script)) {
        return python::run(context, script, data, task).await;
    }
    let llm = context.snapshot.config.optimizer.large_results.llm;
    let wants_model = engine == Some(Engine::Llm) && !is_code(&task.operation);
    if wants_model && llm == DatasetModel::Off {
        return Err(failure(ErrorType::InvalidInput, MODEL_IS_OFF));
    }
    let mut misunderstood = None;
    if !wants_model {
        let (operation, parameters, timeout) =
            (task.operation.clone(), task.parameters.clone(), task.timeout);
        let work = move |data: &RawValue| process(data, &operation, &parameters, timeout);
        match on_data(context, data, work).await? {
            (tool, Ok(processed)) => {
                return Ok(Done { tool, processed, query: None, beside: Beside::default() });
            }
            (_, Err(error)) => {
                let may_ask_model = engine.is_none()
                    && llm == DatasetModel::Auto
                    && matches!(error, JobError::Operation(DatasetError::Misunderstood(_)));
                if !may_ask_model {
                    return Err(failure(error_type(&error), error.to_string()));
                }
                misunderstood = Some(error.to_string());
            }
        }
    }
    let Some(model) = LanguageModel::available(context, wants_model) else {
        let missing = || format!("engine: {}", language_model::MISSING);
        return Err(failure(ErrorType::InvalidInput, misunderstood.unwrap_or_else(missing)));
    };
    let ByModel { tool, done, query } =
        by_model::run(context, &model, data, task, misunderstood.as_deref()).await?;
    Ok(Done { tool, processed: done, query: Some(query), beside: Beside::default() })
}

/// Runs `work` on the rows, in the caller's turn. Returns the tool that kept data came from, too.
async fn on_data<T: Send + 'static>(
    context: CallContext<'_>,
    data: &Data,
    work: impl FnOnce(&RawValue) -> Result<T, DatasetError> + Send + 'static,
) -> Result<(Option<String>, Result<T, JobError>), Refusal> {
    let path = data.path.clone();
    let job = move |content: &Content| -> Result<T, JobError> {
        let rows = resolve(content, path.as_ref())?;
        Ok(work(&rows)?)
    };
    match &data.source {
        Source::Given(given) => {
            let given = Arc::clone(given);
            let work = move || job(&Content::of_json(&given));
            let done = context.engine.results().work(&owner(&context.caller.principal), work).await;
            let done =
                done.ok_or_else(|| failure(ErrorType::BackendError, "the data cannot be processed"))?;
            Ok((None, done))
        }
        Source::Kept(result_ref) => {
            let work = move |stored: &StoredResult| (stored.origin.tool.clone(), job(&stored.content));
            let (tool, done) = on_required(context, result_ref, work).await?;
            Ok((Some(tool), done))
        }
    }
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
        (None, None, Some(data)) => (Source::Given(Arc::from(data)), None),
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
