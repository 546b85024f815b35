//! The table `data` in a database of its own, in memory, and queries on it within limits.
//!
//! A query is untrusted. An authorizer allows it to read `data` and to call functions that compute; a
//! progress handler ends it at its limit of time or memory; limits of SQLite bound values, expressions and
//! text. The database is dropped with the query.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::{Value as SqlValue, ValueRef};
use rusqlite::{Connection, OpenFlags, Statement, params_from_iter};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Number, Value};
use vmcp_json::text;

use super::aggregate_functions;
use super::compile::{Answer, Query, TABLE, quoted};
use super::functions;
use super::memory::{Brake, Deadline, Limits};
use super::rows::{ROWS_BETWEEN_CHECKS, Row, Rows};
use super::sql_error::{MAX_RESULT_BYTES, MAX_RESULT_ROWS, SqlError};
use super::text_functions;
use crate::json::{self, Kind};

/// Longest value that a query may make, unless the data have longer ones: 1 MiB.
const MAX_VALUE_BYTES: usize = 1 << 20;
/// Instructions of SQLite between two looks at the limits, for values of [`MAX_VALUE_BYTES`]; fewer for
/// longer ones, because one instruction may copy one.
const OPS_BETWEEN_CHECKS: usize = 250;
/// Most and fewest bytes of a pattern of LIKE and GLOB, for values of [`MAX_VALUE_BYTES`]; fewer for longer
/// ones, because the time of one comparison grows with both.
const MAX_PATTERN_BYTES: usize = 1_000;
const MIN_PATTERN_BYTES: usize = 100;
/// Largest database, in pages of 4 KiB: 512 MiB.
const MAX_PAGES: u32 = 128 * 1024;

/// The table, loaded.
pub(super) struct Table {
    connection: Connection,
    deadline: Deadline,
    /// The limit that ended the query: 1 for time, 2 for memory.
    brake: Arc<AtomicU8>,
    /// The first action that the authorizer refused.
    refused: Arc<Mutex<Option<String>>>,
}

impl Table {
    /// Makes the table of rows. Booleans are 1 and 0, lists and objects are JSON texts.
    pub(super) fn load(rows: &Rows<'_>, deadline: Deadline) -> Result<Table, SqlError> {
        let load = |error: rusqlite::Error| SqlError::Load(error.to_string());
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_in_memory_with_flags(flags).map_err(load)?;
        connection.pragma_update(None, "max_page_count", MAX_PAGES).map_err(load)?;
        connection.pragma_update(None, "temp_store", "MEMORY").map_err(load)?;
        connection.pragma_update(None, "journal_mode", "OFF").map_err(load)?;
        let columns: Vec<String> = rows.columns.iter().map(|name| quoted(name)).collect();
        let create = format!("CREATE TABLE {TABLE} ({})", columns.join(", "));
        connection.execute_batch(&create).map_err(load)?;
        let places = vec!["?"; columns.len()].join(", ");
        let mut longest = MAX_VALUE_BYTES;
        let transaction = connection.transaction().map_err(load)?;
        {
            let mut insert =
                transaction.prepare(&format!("INSERT INTO {TABLE} VALUES ({places})")).map_err(load)?;
            for (number, row) in rows.all.iter().enumerate() {
                if number % ROWS_BETWEEN_CHECKS == 0 && deadline.is_over() {
                    return Err(SqlError::Time(deadline.timeout));
                }
                let mut values = vec![SqlValue::Null; columns.len()];
                for (column, cell) in &row.cells {
                    longest = longest.max(cell.raw().get().len());
                    if let Some(value) = values.get_mut(*column) {
                        *value = sql_value(cell.raw());
                    }
                }
                insert.execute(params_from_iter(values)).map_err(load)?;
            }
        }
        transaction.commit().map_err(load)?;
        let mut table = Table { connection, deadline, brake: Arc::default(), refused: Arc::default() };
        table.guard(longest).map_err(load)?;
        Ok(table)
    }

    /// Puts all limits in force.
    fn guard(&mut self, longest: usize) -> rusqlite::Result<()> {
        let connection = &mut self.connection;
        connection.pragma_update(None, "query_only", true)?;
        text_functions::register(connection, longest + 1024)?;
        aggregate_functions::register(connection)?;
        let pattern = (MAX_PATTERN_BYTES * MAX_VALUE_BYTES / longest.max(1))
            .clamp(MIN_PATTERN_BYTES, MAX_PATTERN_BYTES);
        for (limit, value) in [
            (Limit::SQLITE_LIMIT_LENGTH, i32::try_from(longest + 1024).unwrap_or(i32::MAX)),
            (Limit::SQLITE_LIMIT_SQL_LENGTH, 64 * 1024),
            (Limit::SQLITE_LIMIT_COLUMN, 512),
            (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
            (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 20),
            (Limit::SQLITE_LIMIT_VDBE_OP, 250_000),
            (Limit::SQLITE_LIMIT_ATTACHED, 0),
            (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, i32::try_from(pattern).unwrap_or(i32::MAX)),
            (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
            (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
        ] {
            connection.set_limit(limit, value)?;
        }
        let refused = Arc::clone(&self.refused);
        connection.authorizer(Some(move |context: AuthContext<'_>| match refusal(&context.action) {
            None => Authorization::Allow,
            Some(action) => {
                refused.lock().get_or_insert(action);
                Authorization::Deny
            }
        }))?;
        let (brake, limits) = (Arc::clone(&self.brake), Limits::start(self.deadline));
        let ops = (OPS_BETWEEN_CHECKS * MAX_VALUE_BYTES / longest.max(1)).clamp(4, OPS_BETWEEN_CHECKS);
        connection.progress_handler(
            i32::try_from(ops).unwrap_or(i32::MAX),
            Some(move || match limits.met() {
                None => false,
                Some(met) => {
                    brake.store(if met == Brake::Time { 1 } else { 2 }, Ordering::Relaxed);
                    true
                }
            }),
        )
    }

    /// Runs a query that a model wrote. Returns its rows as objects, and the parameters that it did not name.
    pub(super) fn query_by_hand(
        &self,
        sql: &str,
        parameters: &Map<String, Value>,
    ) -> Result<(Box<RawValue>, Vec<String>), SqlError> {
        let mut statement = self.connection.prepare(sql).map_err(|error| self.explain(&error))?;
        let mut unused: Vec<String> = parameters.keys().cloned().collect();
        for position in 1..=statement.parameter_count() {
            let name = statement.parameter_name(position).and_then(|name| name.get(1..)).map(str::to_owned);
            let name = name.ok_or_else(|| SqlError::Sql("name parameters, such as `:limit`".to_owned()))?;
            let value = parameters.get(&name);
            let value = value.ok_or_else(|| SqlError::Sql(format!("parameters.{name} is missing")))?;
            unused.retain(|other| *other != name);
            let value = to_raw_value(value).map_or(SqlValue::Null, |raw| sql_value(&raw));
            statement.raw_bind_parameter(position, value).map_err(|error| self.explain(&error))?;
        }
        let names = column_names(&statement);
        let mut answer = Growing::default();
        self.each_row(
            &mut statement,
            |row| {
                let mut object = Map::new();
                for (position, name) in names.iter().enumerate() {
                    object.insert(name.clone(), json_value(row.get_ref(position)?));
                }
                Ok(to_raw_value(&object).unwrap_or_default())
            },
            &mut answer,
        )?;
        Ok((super::array(&answer.values), unused))
    }

    /// Runs a query that [`super::compile`] made, and writes its answer.
    pub(super) fn run(&self, query: &Query, rows: &Rows<'_>) -> Result<Box<RawValue>, SqlError> {
        let mut statement = self.connection.prepare(&query.sql).map_err(|error| self.explain(&error))?;
        for (position, value) in query.values.iter().enumerate() {
            statement.raw_bind_parameter(position + 1, value).map_err(|error| self.explain(&error))?;
        }
        let mut answer = Growing::default();
        let read = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Box<RawValue>> {
            let number = usize::try_from(row.get::<_, i64>(0)?).unwrap_or_default();
            let whole = number.checked_sub(1).and_then(|number| rows.all.get(number));
            Ok(match (&query.answer, whole) {
                (Answer::Single, _) => to_raw_value(&json_value(row.get_ref(1)?)).unwrap_or_default(),
                (Answer::Rows(fields), Some(whole)) => selected(whole, fields, &rows.columns),
                (Answer::Values(field), Some(whole)) => cell(whole, *field).to_owned(),
                (Answer::Objects { by, names } | Answer::Object { by, names }, _) => {
                    let of_group = by.iter().filter_map(|field| {
                        let value = whole.map_or("null", |whole| cell(whole, *field).get());
                        Some((rows.columns.get(*field)?.clone(), value.to_owned()))
                    });
                    let mut entries: Vec<(String, String)> = of_group.collect();
                    for (position, name) in names.iter().enumerate() {
                        entries.push((name.clone(), json_value(row.get_ref(position + 1)?).to_string()));
                    }
                    object(&entries)
                }
                (Answer::Rows(_) | Answer::Values(_), None) => Box::default(),
            })
        };
        self.each_row(&mut statement, read, &mut answer)?;
        Ok(match query.answer {
            Answer::Single | Answer::Object { .. } => answer.values.into_iter().next().unwrap_or_default(),
            Answer::Rows(_) | Answer::Values(_) | Answer::Objects { .. } => super::array(&answer.values),
        })
    }

    /// Runs a statement whose parameters are bound, and keeps what `read` makes of each row.
    fn each_row(
        &self,
        statement: &mut Statement<'_>,
        read: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<Box<RawValue>>,
        answer: &mut Growing,
    ) -> Result<(), SqlError> {
        let mut rows = statement.raw_query();
        loop {
            match rows.next() {
                Ok(None) => return Ok(()),
                Ok(Some(row)) => answer.push(read(row).map_err(|error| self.explain_row(&error))?)?,
                Err(error) => return Err(self.explain_row(&error)),
            }
        }
    }

    /// Says why a query ended while it ran.
    fn explain_row(&self, error: &rusqlite::Error) -> SqlError {
        match self.explain(error) {
            SqlError::Sql(text) => SqlError::Row(text),
            other => other,
        }
    }

    /// Says why a query ended.
    fn explain(&self, error: &rusqlite::Error) -> SqlError {
        if let Some(action) = self.refused.lock().take() {
            return SqlError::Forbidden(action);
        }
        match self.brake.load(Ordering::Relaxed) {
            1 => SqlError::Time(self.deadline.timeout),
            2 => SqlError::Memory,
            _ => SqlError::Sql(error.to_string()),
        }
    }
}

/// Rows of an answer, bounded.
#[derive(Default)]
struct Growing {
    values: Vec<Box<RawValue>>,
    bytes: usize,
}

impl Growing {
    fn push(&mut self, value: Box<RawValue>) -> Result<(), SqlError> {
        self.bytes += value.get().len() + 1;
        if self.values.len() >= MAX_RESULT_ROWS || self.bytes > MAX_RESULT_BYTES {
            return Err(SqlError::TooLarge);
        }
        self.values.push(value);
        Ok(())
    }
}

/// Returns the action in words if a query may not do it.
fn refusal(action: &AuthAction<'_>) -> Option<String> {
    match action {
        AuthAction::Select | AuthAction::Recursive => None,
        AuthAction::Read { table_name, .. }
            if table_name.is_empty() || *table_name == TABLE || functions::is_table(table_name) =>
        {
            None
        }
        // A query of which no column is read: `count(*)` of a part that WITH names.
        AuthAction::Read { table_name, column_name }
            if column_name.is_empty() && !functions::is_built_in(table_name) =>
        {
            None
        }
        AuthAction::Function { function_name } if functions::is_function(function_name) => None,
        AuthAction::Function { function_name } => Some(format!("the function {function_name}")),
        AuthAction::Read { table_name, .. } => Some(format!("the table {table_name}")),
        other => {
            let name = format!("{other:?}");
            let end = name.find([' ', '{']).unwrap_or(name.len());
            Some(name.get(..end).unwrap_or_default().to_owned())
        }
    }
}

fn sql_value(raw: &RawValue) -> SqlValue {
    let text = raw.get();
    match json::kind(raw) {
        Kind::Null => SqlValue::Null,
        Kind::Boolean => SqlValue::Integer(i64::from(text == "true")),
        Kind::Integer | Kind::Number => match text.parse::<i64>() {
            Ok(integer) => SqlValue::Integer(integer),
            Err(_) => text.parse::<f64>().map_or(SqlValue::Null, SqlValue::Real),
        },
        Kind::String => SqlValue::Text(json::string(raw).unwrap_or_default()),
        Kind::Array | Kind::Object => SqlValue::Text(text.to_owned()),
    }
}

fn json_value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(integer) => integer.into(),
        ValueRef::Real(real) => Number::from_f64(real).map_or(Value::Null, Value::Number),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
        ValueRef::Blob(bytes) => hex::encode(bytes).into(),
    }
}

/// Returns the names of the columns, equal ones numbered.
fn column_names(statement: &Statement<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in statement.column_names() {
        let same = names.iter().filter(|known| *known == name).count();
        names.push(if same == 0 { name.to_owned() } else { format!("{name}_{}", same + 1) });
    }
    names
}

/// Returns a row as it came, or the fields of it in this order.
fn selected(row: &Row<'_>, fields: &[usize], columns: &[String]) -> Box<RawValue> {
    if fields.is_empty() {
        return row.raw.raw().to_owned();
    }
    let entry = |field: &usize| Some((columns.get(*field)?.clone(), cell(row, *field).get().to_owned()));
    object(&fields.iter().filter_map(entry).collect::<Vec<_>>())
}

/// Returns a cell of a row; `null` if the row has none.
fn cell<'a>(row: &'a Row<'_>, field: usize) -> &'a RawValue {
    let cell = row.cells.iter().rev().find(|(column, _)| *column == field);
    cell.map_or(RawValue::NULL, |(_, cell)| cell.raw())
}

/// Writes an object of keys and JSON values.
fn object(entries: &[(String, String)]) -> Box<RawValue> {
    let written = entries.iter().map(|(key, value)| format!("{}:{value}", text::quoted(key)));
    RawValue::from_string(format!("{{{}}}", written.collect::<Vec<_>>().join(","))).unwrap_or_default()
}
