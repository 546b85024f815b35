//! Datasets: a question in words or SQL about the rows of a result, answered by SQLite in memory.
//!
//! ```text
//! rows      JSON or text → rows that stay slices of the text
//! grammar   words → an Operation: conditions, order, groups, …   (no word is ignored in silence)
//! compile   Operation → SQL with bound values
//! table     rows → a table of SQLite; runs SQL within limits     ← `sql:` enters here
//! outline   columns and types of a table, for a language model that writes SQL
//! python    rows → values for a script, which code mode runs    ← `python:`
//! ```

mod aggregate_functions;
mod compile;
mod functions;
mod grammar;
mod memory;
mod outline;
mod python;
mod rows;
mod sql_error;
mod table;
mod text_functions;

use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::json::{self, Kind};
use memory::Deadline;
use rows::Rows;
use table::Table;

pub use grammar::Misunderstood;
pub use outline::{Column, Outline, outline};
pub use python::{MAX_PYTHON_BYTES, PythonTask, processed_by_python, python_script};
pub use sql_error::{MAX_RESULT_BYTES, SqlError};

/// Longest operation, in bytes.
pub const MAX_OPERATION_BYTES: usize = 16 * 1024;
/// Prefix of an operation in SQL.
const SQL: &str = "sql:";
/// Prefix of an operation in Python, which code mode runs.
const PYTHON: &str = "python:";

/// The result of an operation.
#[derive(Debug)]
pub struct Processed {
    /// The value.
    pub value: Box<RawValue>,
    /// Size of the data: their rows.
    pub original_size: usize,
    /// Size of the value: the elements of a list, the keys of an object, else 1.
    pub processed_size: usize,
    /// Parameters that the operation did not use.
    pub unused_parameters: Vec<String>,
}

/// Errors of an operation. The text is for the model that asked.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// Words without an operation.
    #[error(transparent)]
    Misunderstood(#[from] Misunderstood),
    /// SQL that was refused, failed or met a limit.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// Python where nothing runs it.
    #[error(
        "operation: `python:` needs code mode (optim.execute_code), which is off for this client; use `sql: SELECT … FROM data`, or words"
    )]
    Python,
    /// Python without a script.
    #[error(
        "operation: `python:` needs a script behind it, such as `python: sum(row['amount'] for row in rows)`"
    )]
    NoScript,
    /// Data that a script cannot be given.
    #[error(
        "data: {0} bytes are too many for `python:`, the limit is {MAX_PYTHON_BYTES}; name a part by `path`, or use `sql: SELECT … FROM data`"
    )]
    TooLargeForPython(usize),
    /// Data that Python cannot hold.
    #[error("data: Python cannot read them: {0}; use `sql: SELECT … FROM data`")]
    Unreadable(String),
    /// A long operation.
    #[error("operation is too long: {0} bytes, the limit is {MAX_OPERATION_BYTES}")]
    TooLong(usize),
}

/// Runs an operation on data, a JSON value; a string is text, whose lines are rows. `parameters` override
/// literals of words, and are the named parameters of SQL. Blocks for at most about `timeout`, and for the
/// time to read the data once. Python is refused: see [`PythonTask`].
pub fn process(
    data: &RawValue,
    operation: &str,
    parameters: &Map<String, Value>,
    timeout: Duration,
) -> Result<Processed, DatasetError> {
    let operation = operation.trim();
    if operation.len() > MAX_OPERATION_BYTES {
        return Err(DatasetError::TooLong(operation.len()));
    }
    if after(operation, PYTHON).is_some() {
        return Err(DatasetError::Python);
    }
    let deadline = Deadline::after(timeout);
    let text = json::string(data);
    let rows = Rows::of(data, text.as_deref(), deadline)?;
    let (value, unused_parameters) = if let Some(sql) = after(operation, SQL) {
        let table = Table::load(&rows, deadline)?;
        let (answer, unused) = table.query_by_hand(sql, parameters)?;
        (answer, unused)
    } else {
        let (plan, unused) = grammar::parse(operation, &rows.columns, parameters)?;
        let query = compile::compile(&plan, &rows.columns);
        let table = Table::load(&rows, deadline)?;
        (table.run(&query, &rows)?, unused)
    };
    Ok(Processed { original_size: rows.size, processed_size: size(&value), value, unused_parameters })
}

/// True for an operation in code, with its prefix: words have none.
pub fn is_code(operation: &str) -> bool {
    [SQL, PYTHON].iter().any(|prefix| after(operation.trim(), prefix).is_some())
}

/// Returns the rest of an operation after a prefix in any letter case.
fn after<'a>(operation: &'a str, prefix: &str) -> Option<&'a str> {
    let head = operation.get(..prefix.len()).filter(|head| head.eq_ignore_ascii_case(prefix));
    head.and_then(|_| operation.get(prefix.len()..))
}

/// Returns the size of a value: the elements of a list, the keys of an object, else 1.
fn size(value: &RawValue) -> usize {
    if json::kind(value) != Kind::Object {
        return json::length(value).unwrap_or(1);
    }
    let mut entries = 0;
    json::each_entry(value, |_, _| {
        entries += 1;
        true
    });
    entries
}

/// Returns the part of the data that is gone, in percent, rounded to a tenth.
pub fn reduction_percent(original: usize, processed: usize) -> f64 {
    if original == 0 {
        return 0.0;
    }
    let kept = processed as f64 / original as f64;
    ((1.0 - kept) * 1000.0).round() / 10.0
}

/// Returns values as a JSON array.
fn array(values: &[Box<RawValue>]) -> Box<RawValue> {
    to_raw_value(values).unwrap_or_default()
}

#[cfg(test)]
mod tests;
