//! A `python:` operation: its script, and the data as values for it. Code mode runs the script.

use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use vmcp_json::text::without_half_surrogates;

use super::memory::Deadline;
use super::rows::Rows;
use super::{DatasetError, MAX_OPERATION_BYTES, PYTHON, Processed, after};
use crate::json;
use crate::shape::only_array;

/// Most bytes of the data of a script, as JSON: 8 MiB. In an interpreter they take a multiple.
pub const MAX_PYTHON_BYTES: usize = 8 << 20;
/// Most bytes of the rows that are made of data, as JSON: 32 MiB. Records of a table repeat the names of its
/// header.
const MAX_ROW_BYTES: usize = 4 * MAX_PYTHON_BYTES;
/// Lines of a [`PythonTask`] before those of its operation.
const LINES_BEFORE: u32 = 1;
/// Names of the values in a script. One line: the lines of the operation follow it.
const NAMES: &str = "data, rows, parameters = CONTEXT";

/// A script over rows, for code mode.
#[derive(Debug, PartialEq)]
pub struct PythonTask {
    /// The script.
    pub code: String,
    /// The value of its name `CONTEXT`.
    pub context: Value,
    /// Size of the data: their rows.
    pub original_size: usize,
}

impl PythonTask {
    /// Returns the line of the operation at a line of the script; `None` for a line before the operation.
    pub fn line_of_operation(line: u32) -> Option<u32> {
        line.checked_sub(LINES_BEFORE).filter(|line| *line > 0)
    }

    /// Makes the task of a [`python_script`] on data, a JSON value; a string is text, whose lines are rows.
    /// The script reads the value as `data`, its rows as the list `rows`, and `parameters`. Blocks for at
    /// most about `timeout`, and for the time to read the data once.
    pub fn new(
        script: &str,
        data: &RawValue,
        parameters: &Map<String, Value>,
        timeout: Duration,
    ) -> Result<PythonTask, DatasetError> {
        if script.trim().is_empty() {
            return Err(DatasetError::NoScript);
        }
        if script.len() > MAX_OPERATION_BYTES {
            return Err(DatasetError::TooLong(script.len()));
        }
        if data.get().len() > MAX_PYTHON_BYTES {
            return Err(DatasetError::TooLargeForPython(data.get().len()));
        }
        let text = json::string(data);
        let rows = Rows::of(data, text.as_deref(), Deadline::after(timeout))?;
        let original_size = rows.size;
        let value = parse(data)?;
        let (listed, more) = if value.is_array() {
            (Value::Null, "; rows = data")
        } else if only_array(data).is_some() && lists(&value) == 1 {
            // In place of a copy of the list.
            (Value::Null, "; rows = [value for value in data.values() if isinstance(value, list)][0]")
        } else {
            let bytes: usize = rows.all.iter().map(|row| row.raw.raw().get().len()).sum();
            if bytes > MAX_ROW_BYTES {
                return Err(DatasetError::TooLargeForPython(bytes));
            }
            let rows = rows.all.iter().map(|row| parse(row.raw.raw()));
            (Value::Array(rows.collect::<Result<_, _>>()?), "")
        };
        let context = Value::Array(vec![value, listed, Value::Object(parameters.clone())]);
        Ok(PythonTask { code: format!("{NAMES}{more}\n{script}"), context, original_size })
    }
}

/// Returns the script of a `python:` operation, its lines at their places; `None` for another operation. The
/// common indentation of lines below the prefix is removed.
pub fn python_script(operation: &str) -> Option<String> {
    let code = after(operation.trim(), PYTHON)?;
    let (first, rest) = code.split_once('\n').unwrap_or((code, ""));
    if !first.trim().is_empty() {
        return Some(code.trim_start().to_owned());
    }
    let indentation = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let filled = rest.lines().filter(|line| !line.trim().is_empty());
    let common = filled.map(indentation).min().unwrap_or_default();
    let lines = rest.lines().map(|line| line.get(common..).unwrap_or_default());
    Some(std::iter::once("").chain(lines).collect::<Vec<_>>().join("\n"))
}

/// Makes the result of a script.
pub fn processed_by_python(original_size: usize, value: &Value) -> Processed {
    let processed_size = match value {
        Value::Array(items) => items.len(),
        Value::Object(entries) => entries.len(),
        _ => 1,
    };
    // A `Value` cannot fail to serialize.
    let value = to_raw_value(value).unwrap_or_default();
    Processed { value, original_size, processed_size, unused_parameters: Vec::new() }
}

/// Returns the number of lists among the values of an object.
fn lists(value: &Value) -> usize {
    let entries = value.as_object().into_iter().flat_map(Map::values);
    entries.filter(|value| value.is_array()).count()
}

fn parse(raw: &RawValue) -> Result<Value, DatasetError> {
    let text = raw.get();
    let mended = without_half_surrogates(text);
    let parsed = serde_json::from_str(mended.as_deref().unwrap_or(text));
    parsed.map_err(|error| DatasetError::Unreadable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn task(script: &str, data: &Value) -> Result<PythonTask, String> {
        let data = to_raw_value(data).unwrap();
        let parameters = json!({"least": 2});
        PythonTask::new(script, &data, parameters.as_object().unwrap(), Duration::from_secs(20))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_script_stands_behind_its_prefix_on_its_own_lines() {
        for (operation, script) in [
            ("python: sum(rows)", Some("sum(rows)")),
            ("  PYTHON:len(rows)\n", Some("len(rows)")),
            (
                "python: n = 0\nfor row in rows:\n    n += 1\nn",
                Some("n = 0\nfor row in rows:\n    n += 1\nn"),
            ),
            (
                "python:\n    for row in rows:\n        print(row)\n\n    1",
                Some("\nfor row in rows:\n    print(row)\n\n1"),
            ),
            ("python:\n\tn = 1\n\tn", Some("\nn = 1\nn")),
            ("python:\nif rows:\n    1", Some("\nif rows:\n    1")),
            ("python:", Some("")),
            ("count", None),
            ("sql: SELECT 1", None),
            ("pythonic: 1", None),
        ] {
            assert_eq!(python_script(operation).as_deref(), script, "{operation}");
        }
        assert_eq!([1, 2, 9].map(PythonTask::line_of_operation), [None, Some(1), Some(8)]);
    }

    #[test]
    fn rows_are_those_of_words_and_sql() {
        let of_lists = "rows = [value for value in data.values() if isinstance(value, list)][0]";
        for (data, size, rows, named) in [
            (json!([{"a": 1}, {"a": 2}]), 2, Value::Null, "rows = data"),
            (json!([]), 0, Value::Null, "rows = data"),
            (json!({"items": [1, 2, 3], "total": 3}), 3, Value::Null, of_lists),
            (json!({"x": {"n": 1}, "y": 2}), 2, json!([{"key": "x", "n": 1}, {"key": "y", "value": 2}]), ""),
            (
                json!({"one": [1], "two": [2]}),
                2,
                json!([{"key": "one", "value": [1]}, {"key": "two", "value": [2]}]),
                "",
            ),
            (json!("one\n\n{\"a\":1}"), 2, json!(["one", {"a": 1}]), ""),
            (json!(7), 1, json!([7]), ""),
        ] {
            let task = task("1", &data).unwrap();
            assert_eq!(task.original_size, size, "{data}");
            assert_eq!(task.context, json!([data, rows, {"least": 2}]));
            let lines: Vec<_> = task.code.lines().collect();
            assert!(
                lines.len() == 2 && lines[0].starts_with(NAMES) && lines[0].ends_with(named),
                "{lines:?}"
            );
        }
        let raw = RawValue::from_string(r#"{"a":[1],"a":7,"t":"cut \ud83d"}"#.to_owned()).unwrap();
        let task = PythonTask::new("1", &raw, &Map::new(), Duration::from_secs(20)).unwrap();
        assert_eq!(
            task.context,
            json!([{"a": 7, "t": "cut \u{fffd}"}, [1], {}]),
            "the last of equal keys counts"
        );
    }

    #[test]
    fn mistakes_and_bounds_name_another_way() {
        assert!(task("  \n", &json!([1])).unwrap_err().contains("python: sum("));
        let long = task(&"1\n".repeat(MAX_OPERATION_BYTES), &json!([1])).unwrap_err();
        assert!(long.contains("the limit is 16384"), "{long}");
        let large = task("1", &json!("x".repeat(MAX_PYTHON_BYTES))).unwrap_err();
        assert!(large.contains("the limit is 8388608") && large.contains("`sql:"), "{large}");
        let names = ["a", "b"].map(|name| name.repeat(64)).join(",");
        let wide = task("1", &json!(format!("{names}\n{}", "1,1\n".repeat(250_000)))).unwrap_err();
        assert!(wide.contains("too many for `python:`"), "{wide}");
        let raw = RawValue::from_string("[1e999]".to_owned()).unwrap();
        let unreadable = PythonTask::new("1", &raw, &Map::new(), Duration::from_secs(20)).unwrap_err();
        assert!(unreadable.to_string().starts_with("data: "), "{unreadable}");
    }

    #[test]
    fn the_size_of_a_result_counts_its_elements_or_keys() {
        for (value, size) in [(json!([1, 2]), 2), (json!({"a": 1}), 1), (json!("text"), 1), (Value::Null, 1)]
        {
            let processed = processed_by_python(10, &value);
            assert_eq!((processed.original_size, processed.processed_size), (10, size), "{value}");
            assert_eq!(processed.value.get(), value.to_string());
        }
    }
}
