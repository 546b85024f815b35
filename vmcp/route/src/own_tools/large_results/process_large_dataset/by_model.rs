//! An operation in words that a language model turns into a query (engine `llm`): it writes, and the sandbox
//! of `sql:` runs.

use vmcp_results::dataset::{DatasetError, Processed, SqlError, outline, process};

use super::{Data, JobError, Task, error_type, on_data, prompt};
use crate::answer::tool_result::ErrorType;
use crate::caller::CallContext;
use crate::own_tools::large_results::failure;
use crate::own_tools::listings::language_model::LanguageModel;
use crate::own_tools::own_answer::Refusal;

/// The result of a query that a language model wrote.
pub(super) struct ByModel {
    /// The tool that kept data came from.
    pub(super) tool: Option<String>,
    pub(super) done: Processed,
    /// The query that ran.
    pub(super) query: String,
}

/// Has the model write a query for the task, and runs it on all rows. `misunderstood` is the error of the
/// grammar if the grammar read the words first; the failure of the model then begins with it.
pub(super) async fn run(
    context: CallContext<'_>,
    model: &LanguageModel<'_>,
    data: &Data,
    task: &Task,
    misunderstood: Option<&str>,
) -> Result<ByModel, Refusal> {
    let failed = |error_type, error: String| match misunderstood {
        Some(words) => failure(ErrorType::InvalidInput, format!("{words}. By a language model: {error}")),
        None => failure(error_type, error),
    };
    let metrics = context.engine.metrics();
    let (first_rows, timeout) = (context.snapshot.config.optimizer.large_results.preview_rows, task.timeout);
    let (_, outlined) = on_data(context, data, move |data| outline(data, first_rows, timeout)).await?;
    let outlined = outlined.map_err(|error| failed(error_type(&error), error.to_string()))?;
    let first = prompt::first(&task.operation, &task.parameters, &outlined);
    let (mut asked, mut reason) = (first.clone(), String::new());
    for _ in 0..model.max_turns(context) {
        metrics.dataset_model_asks.inc();
        let answer = model.ask(prompt::SYSTEM, &asked).await.map_err(|reason| {
            metrics.dataset_model_failures.inc();
            let error = format!("operation: the language model did not answer ({reason}); {INSTEAD}");
            failed(ErrorType::BackendError, error)
        })?;
        let query = match prompt::read(&answer) {
            Ok(query) => query,
            Err(error) => {
                error.clone_into(&mut reason);
                asked = prompt::second(&first, &answer, error);
                continue;
            }
        };
        let (sql, parameters) = (format!("sql: {query}"), task.parameters.clone());
        let (tool, done) =
            on_data(context, data, move |data| process(data, &sql, &parameters, timeout)).await?;
        match done {
            Ok(done) => return Ok(ByModel { tool, done, query }),
            Err(error) => {
                let told = words_for_model(&error, first_rows > 0).ok_or_else(|| {
                    metrics.dataset_model_failures.inc();
                    failed(error_type(&error), format!("{error}; the language model's query was: {query}"))
                })?;
                asked = prompt::second(&first, &query, &told);
                reason = format!("{error}; its query was: {query}");
            }
        }
    }
    metrics.dataset_model_failures.inc();
    let error = format!("operation: the language model wrote no query that works ({reason}); {INSTEAD}");
    Err(failed(ErrorType::InvalidInput, error))
}

/// Another way, for the caller.
const INSTEAD: &str = "use other words, or `sql: SELECT … FROM data`";

/// Returns the reason of a failed query for the model that wrote it; `None` if another query would not help.
/// A failure on a row may tell a value, so without `sees_values` only its kind is told.
fn words_for_model(error: &JobError, sees_values: bool) -> Option<String> {
    match error {
        JobError::Operation(DatasetError::Sql(SqlError::Row(_))) if !sees_values => {
            Some("SQLite ended the query with an error on a row".to_owned())
        }
        JobError::Operation(DatasetError::Sql(
            SqlError::Sql(_) | SqlError::Row(_) | SqlError::Forbidden(_) | SqlError::TooLarge,
        )) => Some(error.to_string()),
        _ => None,
    }
}
