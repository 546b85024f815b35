//! The end of a script as the result of execute_code, or of execute_tool_script.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use vmcp_script::pool::Ran;
use vmcp_script::protocol::{Failure, Finished};

use super::call_arguments::{CodeArguments, LANGUAGE};
use crate::answer::tool_result::{self, Block};
use crate::own_tools::arguments::dialect::Dialect;

/// Returns the result of a script that has ended, with its pictures behind it.
pub(super) fn result(ran: Ran, arguments: &CodeArguments) -> Box<RawValue> {
    if arguments.dialect == Dialect::ToolHive {
        return toolhive_result(ran);
    }
    let (output, pictures) = (ran.finished.output, ran.finished.pictures);
    let (mut answer, is_error) = match ran.finished.end {
        Ok(value) => (succeeded(value, &output), false),
        // Callers know this shape; nothing is added to it but a script that they have not seen. Pictures
        // stand behind it.
        Err(failure) if failure.error_type == "TimeoutError" && failure.line.is_none() => {
            let timeout = arguments.timeout.as_secs_f64();
            let mut answer = json!({
                "success": false, "error": failure.error, "error_type": failure.error_type, "timeout": timeout,
            });
            if let Some(answer) = answer.as_object_mut() {
                show_origin(answer, arguments);
            }
            return tool_result::illustrated(&raw(&answer), &pictures, true);
        }
        Err(failure) => (failed(failure, &output), true),
    };
    answer.insert("language".to_owned(), json!(LANGUAGE));
    answer.insert("execution_time".to_owned(), json!((ran.took.as_secs_f64() * 1e4).round() / 1e4));
    answer.insert("calls".to_owned(), json!(ran.calls));
    if let Some(context) = &arguments.context {
        answer.insert("context".to_owned(), context.clone());
    }
    if !pictures.is_empty() {
        answer.insert("pictures".to_owned(), json!(pictures.len()));
    }
    show_origin(&mut answer, arguments);
    tool_result::illustrated(&raw(&Value::Object(answer)), &pictures, is_error)
}

/// Adds the script that a language model has written, and the reason for which another engine ran it.
fn show_origin(answer: &mut Map<String, Value>, arguments: &CodeArguments) {
    if let Some(code) = arguments.written() {
        answer.insert("engine".to_owned(), json!("llm"));
        answer.insert("code".to_owned(), json!(code));
    }
    if let Some(why) = &arguments.start_failure {
        answer.insert("warning".to_owned(), json!(warning(why)));
    }
}

/// Returns the warning for a script of a Job that a worker has run; `why` is the reason.
pub(super) fn warning(why: &str) -> String {
    format!("a worker ran the script, in its subset of Python, since no Job did: {why}")
}

/// A result that has `isError`, also if it is false.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolHiveResult<'a> {
    content: Vec<Block<'a>>,
    is_error: bool,
}

/// The result in ToolHive's form: the value as JSON in a text, and the printed text in another one; or the
/// error as text. Pictures stand behind them.
fn toolhive_result(ran: Ran) -> Box<RawValue> {
    let Ran { finished: Finished { end, output, pictures }, .. } = ran;
    let is_error = end.is_err();
    let text = match end {
        Ok(value) => value.to_string(),
        Err(Failure { error_type, error, line, .. }) => {
            let line = line.map(|line| format!(", line {line}")).unwrap_or_default();
            format!("script execution failed: {error} ({error_type}{line})")
        }
    };
    let printed = Some(output.trim_end_matches('\n')).filter(|printed| !printed.is_empty());
    let logs = printed.map(|printed| format!("Script logs:\n{printed}"));
    let texts = std::iter::once(text.as_str()).chain(logs.as_deref());
    raw(&ToolHiveResult { content: tool_result::blocks(texts, &pictures), is_error })
}

/// The value of the last expression: a list or dict as JSON, everything else as the text that `print` writes.
/// Without a value, the printed text is the result.
fn succeeded(value: Value, output: &str) -> Map<String, Value> {
    let mut answer = Map::new();
    answer.insert("success".to_owned(), json!(true));
    let text = match value {
        Value::Null if !output.is_empty() => {
            answer.insert("result".to_owned(), json!(output));
            return answer;
        }
        Value::Bool(true) => json!("True"),
        Value::Bool(false) => json!("False"),
        Value::Number(number) => json!(number.to_string()),
        value => value,
    };
    answer.insert("result".to_owned(), text);
    if !output.is_empty() {
        answer.insert("output".to_owned(), json!(output));
    }
    answer
}

/// Returns the answer to a failed script: the error, and what the script printed before.
pub(in crate::own_tools) fn failed(failure: Failure, output: &str) -> Map<String, Value> {
    let Failure { error_type, error, line, limit } = failure;
    let mut answer = Map::new();
    answer.insert("success".to_owned(), json!(false));
    answer.insert("error".to_owned(), json!(error));
    answer.insert("error_type".to_owned(), json!(error_type));
    if let Some(line) = line {
        answer.insert("line".to_owned(), json!(line));
    }
    if let Some(limit) = limit {
        answer.insert("limit".to_owned(), json!(limit));
    }
    if !output.is_empty() {
        answer.insert("output".to_owned(), json!(output));
    }
    answer
}

fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_default()
}
