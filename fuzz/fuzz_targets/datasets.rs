//! Fuzzes operations on datasets: the first line is the operation, the second one the data as JSON, the third
//! one its parameters. An operation is refused in words, or answers with JSON; words never become SQL that
//! SQLite cannot parse. A script in Python gets as many rows as its task counts.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use vmcp_results::dataset::{DatasetError, PythonTask, SqlError, process, python_script};

/// Messages of SQLite about a statement that it cannot parse.
const UNPARSED: [&str; 6] = [
    "syntax error",
    "no such column",
    "no such table",
    "no such function",
    "unrecognized token",
    "incomplete input",
];

/// Data of an input without a second line.
const ROWS: &str = r#"[{"id":1,"city":"Oslo","amount":7.5,"tags":["a"]},{"id":"2","city":null,"Amount":-1}]"#;

fuzz_target!(|text: &str| {
    let mut lines = text.splitn(3, '\n');
    let operation = lines.next().unwrap_or_default();
    let data = lines.next().filter(|data| !data.is_empty()).unwrap_or(ROWS);
    let Ok(data) = serde_json::from_str::<&RawValue>(data) else { return };
    let parameters =
        lines.next().and_then(|parameters| serde_json::from_str::<Map<String, Value>>(parameters).ok());
    let parameters = parameters.unwrap_or_default();
    if let Some(script) = python_script(operation)
        && let Ok(task) = PythonTask::new(&script, data, &parameters, Duration::from_secs(1))
        && let Value::Array(rows) = &task.context[1]
    {
        assert_eq!(rows.len(), task.original_size);
    }
    match process(data, operation, &parameters, Duration::from_secs(1)) {
        Ok(processed) => {
            let value: Value = serde_json::from_str(processed.value.get()).expect("an answer is JSON");
            match value {
                Value::Array(items) => assert_eq!(processed.processed_size, items.len()),
                // Columns of one name are entries of their own.
                Value::Object(entries) => assert!(processed.processed_size >= entries.len()),
                _ => assert_eq!(processed.processed_size, 1),
            }
        }
        Err(error) => {
            assert!(!error.to_string().is_empty(), "a refusal without a reason");
            let is_sql = operation.trim_start().get(..4).is_some_and(|sql| sql.eq_ignore_ascii_case("sql:"));
            if let DatasetError::Sql(SqlError::Sql(problem)) = error
                && !is_sql
            {
                assert!(!UNPARSED.iter().any(|unparsed| problem.contains(unparsed)), "{problem}");
            }
        }
    }
});
