//! A `python:` operation: its script runs as one of execute_code, for clients that may call that tool.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use vmcp_config::OptimTool;
use vmcp_results::dataset::{PythonTask, processed_by_python};
use vmcp_script::picture::Picture;
use vmcp_script::protocol::Failure;

use super::{Beside, Data, Done, Task, error_type, on_data};
use crate::answer::tool_result::ErrorType;
use crate::call;
use crate::caller::CallContext;
use crate::own_tools::call_tool::execute_code::failed;
use crate::own_tools::call_tool::execute_code::over_rows::{self, RanOverRows};
use crate::own_tools::large_results::failure;
use crate::own_tools::own_answer::Refusal;

/// True if code mode is on for the caller: execute_code is on offer, and the caller may run this script by
/// it.
pub(super) fn is_on(context: CallContext<'_>, script: &str) -> bool {
    let is_offered = context.snapshot.config.optimizer.tools.contains(&OptimTool::ExecuteCode);
    let arguments = json!({ "code": script }).to_string();
    is_offered && call::authorize_own(context, OptimTool::ExecuteCode, Some(&arguments)).is_ok()
}

/// Runs the script of a task over the data.
pub(super) async fn run(
    context: CallContext<'_>,
    script: String,
    data: &Data,
    task: &Task,
) -> Result<Done, Refusal> {
    let (parameters, timeout) = (task.parameters.clone(), task.timeout);
    let work = move |data: &RawValue| PythonTask::new(&script, data, &parameters, timeout);
    let (tool, made) = on_data(context, data, work).await?;
    let made = made.map_err(|error| failure(error_type(&error), error.to_string()))?;
    let PythonTask { code, context: rows, original_size } = made;
    let ran = over_rows::run(context, code, rows, timeout).await;
    let ran = ran.map_err(|error| failure(ErrorType::BackendError, format!("operation: {error}")))?;
    let RanOverRows { finished, timeout, warning } = ran;
    let output = Some(finished.output).filter(|output| !output.is_empty());
    match finished.end {
        Ok(value) => {
            let (value, output) = result(value, output);
            let processed = processed_by_python(original_size, &value);
            let beside = Beside { output, warning, pictures: finished.pictures };
            Ok(Done { tool, processed, query: None, beside })
        }
        Err(error) => {
            let is_timeout = error.error_type == "TimeoutError" && error.line.is_none();
            let line = error.line.and_then(PythonTask::line_of_operation);
            let mut answer = failed(Failure { line, ..error }, &output.unwrap_or_default());
            if is_timeout {
                answer.insert("timeout".to_owned(), json!(timeout.as_secs_f64()));
            }
            if let Some(warning) = warning {
                answer.insert("warning".to_owned(), json!(warning));
            }
            Err(Refusal::json(&answer))
        }
    }
}

/// Returns the result of a script, and the text beside it: without a value, the printed text is the result.
fn result(value: Value, output: Option<String>) -> (Value, Option<String>) {
    match (value, output) {
        (Value::Null, Some(output)) => (Value::String(output), None),
        beside => beside,
    }
}

/// Returns the number of pictures for the answer; `None` without one.
pub(super) fn count(pictures: &[Picture]) -> Option<usize> {
    Some(pictures.len()).filter(|count| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_text_is_the_result_of_a_script_without_a_value() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(result(Value::Null, text("a\n")), (json!("a\n"), None));
        assert_eq!(result(json!([]), text("a\n")), (json!([]), text("a\n")));
        assert_eq!(result(Value::Null, None), (Value::Null, None));
        assert_eq!(count(&[]), None);
    }
}
