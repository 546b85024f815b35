//! Rows of a dataset: elements of a list, entries of an object, lines of a text or records of a table in it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;
use vmcp_json::text;

use super::memory::Deadline;
use super::sql_error::SqlError;
use crate::delimited::{self, Delimited};
use crate::json::{self, Kind, quoted};
use crate::shape::only_array;

/// Bounds of one table; data beyond them are an error. In memory a row takes about a hundred bytes beside its
/// text, and a value 32 bytes.
const MAX: Bounds = Bounds { rows: 1_000_000, values: 8_000_000, record_bytes: 256 << 20 };
/// Rows between two looks at the clock.
pub(crate) const ROWS_BETWEEN_CHECKS: usize = 1_024;
/// Columns of a table; further keys are left out.
pub(crate) const MAX_COLUMNS: usize = 200;
/// Longest name of a column, in bytes; longer keys are left out.
const MAX_NAME_BYTES: usize = 200;
/// Different keys that are remembered; a further one without a column is looked at again.
const MAX_KNOWN_KEYS: usize = 10_000;
/// Names by which SQLite calls the number of a row.
const ROW_IDS: [&str; 3] = ["rowid", "oid", "_rowid_"];
/// Column of rows of other types than objects.
pub(crate) const VALUE: &str = "value";
/// Column of the keys of an object.
const KEY: &str = "key";
/// Column of the lines of a text.
const LINE: &str = "line";

/// Most rows and values of a table.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    rows: usize,
    values: usize,
    /// Bytes of the records of a text as JSON: each record repeats the names of the header, which may have a
    /// hundred times the bytes of its fields.
    record_bytes: usize,
}

/// One row: its cells in the order of their columns, and its JSON as it came.
pub(crate) struct Row<'a> {
    pub(crate) cells: Vec<(usize, Cell<'a>)>,
    pub(crate) raw: Cell<'a>,
}

/// A JSON value: a slice of the data, or made here.
pub(crate) enum Cell<'a> {
    Raw(&'a RawValue),
    Own(Box<RawValue>),
}

impl Cell<'_> {
    pub(crate) fn raw(&self) -> &RawValue {
        match self {
            Cell::Raw(raw) => raw,
            Cell::Own(raw) => raw,
        }
    }
}

/// All rows.
pub(crate) struct Rows<'a> {
    /// Names of the columns; no two are equal in any letter case.
    pub(crate) columns: Vec<String>,
    pub(crate) all: Vec<Row<'a>>,
    /// Size of the data, as the answer tells it.
    pub(crate) size: usize,
}

/// Names of columns, in the order of their appearance.
#[derive(Default)]
struct Columns {
    names: Vec<String>,
    by_key: HashMap<String, Option<usize>>,
    /// The names in lower case.
    taken: HashSet<String>,
}

impl Columns {
    /// Returns the column of a key. A key that differs from a name by letter case alone gets a number.
    fn of(&mut self, key: &str) -> Option<usize> {
        if let Some(column) = self.by_key.get(key) {
            return *column;
        }
        let is_usable = !key.is_empty() && key.len() <= MAX_NAME_BYTES && !key.contains('\0');
        let column = (is_usable && self.names.len() < MAX_COLUMNS).then(|| {
            let mut name = key.to_owned();
            let mut number = 2;
            while ROW_IDS.contains(&name.to_lowercase().as_str()) || !self.taken.insert(name.to_lowercase()) {
                name = format!("{key}_{number}");
                number += 1;
            }
            self.names.push(name);
            self.names.len() - 1
        });
        if column.is_some() || self.by_key.len() < MAX_KNOWN_KEYS {
            self.by_key.insert(key.to_owned(), column);
        }
        column
    }
}

/// Rows that are read, up to a limit.
struct Loading<'a> {
    columns: Columns,
    rows: Vec<Row<'a>>,
    values: usize,
    bounds: Bounds,
    deadline: Deadline,
    ended: Option<SqlError>,
}

impl<'a> Loading<'a> {
    /// Adds a row; false at a limit.
    fn add(&mut self, row: impl FnOnce(&mut Columns) -> Row<'a>) -> bool {
        if self.rows.len() >= self.bounds.rows {
            self.ended = Some(too_many(self.bounds.rows, "rows"));
        } else if self.rows.len().is_multiple_of(ROWS_BETWEEN_CHECKS) && self.deadline.is_over() {
            self.ended = Some(SqlError::Time(self.deadline.timeout));
        } else {
            let row = row(&mut self.columns);
            self.values += row.cells.len();
            self.rows.push(row);
            if self.values > self.bounds.values {
                self.ended = Some(too_many(self.bounds.values, "values"));
            }
        }
        self.ended.is_none()
    }
}

fn too_many(most: usize, unit: &str) -> SqlError {
    SqlError::Load(format!("it has more than {most} {unit}; name a part of it by `path`"))
}

fn too_long(most: usize) -> SqlError {
    SqlError::Load(format!("its records have more than {most} bytes as JSON; ask its tool for fewer"))
}

impl<'a> Rows<'a> {
    /// Reads the rows of data; `text` is the text of a JSON string.
    pub(crate) fn of(
        data: &'a RawValue,
        text: Option<&'a str>,
        deadline: Deadline,
    ) -> Result<Rows<'a>, SqlError> {
        Rows::within(MAX, data, text, deadline)
    }

    fn within(
        bounds: Bounds,
        data: &'a RawValue,
        text: Option<&'a str>,
        deadline: Deadline,
    ) -> Result<Rows<'a>, SqlError> {
        let (columns, rows) = (Columns::default(), Vec::new());
        let mut loading = Loading { columns, rows, values: 0, bounds, deadline, ended: None };
        match (text, json::kind(data)) {
            (Some(text), _) => {
                if let Some(Delimited { names, records, .. }) = Delimited::of(text) {
                    let mut records = records.map_while(Result::ok);
                    let mut bytes = 0;
                    let is_read = records.all(|fields| {
                        let is_added = loading.add(|columns| {
                            let row = record(&names, fields, columns);
                            bytes += row.raw.raw().get().len();
                            row
                        });
                        is_added && bytes <= bounds.record_bytes
                    });
                    if !is_read {
                        loading.ended.get_or_insert_with(|| too_long(bounds.record_bytes));
                    }
                } else {
                    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
                    lines.all(|text| loading.add(|columns| line(text, columns)));
                }
            }
            (None, Kind::Array | Kind::Object) => {
                let list = if json::kind(data) == Kind::Array { Some(data) } else { only_array(data) };
                match list {
                    Some(list) => {
                        json::each_item(list, |item| loading.add(|columns| element(item, columns)));
                    }
                    None => json::each_entry(data, |key, value| {
                        loading.add(|columns| entry(&key, value, columns))
                    }),
                }
            }
            _ => {
                loading.add(|columns| element(data, columns));
            }
        }
        let Loading { mut columns, rows, ended, .. } = loading;
        if let Some(error) = ended {
            return Err(error);
        }
        if columns.names.is_empty() {
            columns.of(VALUE);
        }
        Ok(Rows { columns: columns.names, size: rows.len(), all: rows })
    }
}

/// Makes a row of an element: an object's entries, or the value.
fn element<'a>(raw: &'a RawValue, columns: &mut Columns) -> Row<'a> {
    let mut cells = Vec::new();
    if json::kind(raw) != Kind::Object {
        cells.extend(columns.of(VALUE).map(|column| (column, Cell::Raw(raw))));
    }
    json::each_entry(raw, |key, value| {
        if let Some(column) = columns.of(&key) {
            put(&mut cells, column, Cell::Raw(value));
        }
        true
    });
    Row { cells, raw: Cell::Raw(raw) }
}

/// Puts a value into a row. The last of equal keys counts, as for most readers.
fn put<'a>(cells: &mut Vec<(usize, Cell<'a>)>, column: usize, cell: Cell<'a>) {
    let place = cells.partition_point(|(present, _)| *present < column);
    match cells.get_mut(place).filter(|(present, _)| *present == column) {
        Some((_, present)) => *present = cell,
        None => cells.insert(place, (column, cell)),
    }
}

/// Makes a row of a line; a line that is a JSON object is that object (NDJSON).
fn line<'a>(text: &'a str, columns: &mut Columns) -> Row<'a> {
    let parsed = json::parse(text).filter(|raw| json::kind(raw) == Kind::Object);
    if let Some(raw) = parsed {
        return element(raw, columns);
    }
    let cells = columns.of(LINE).map(|column| (column, Cell::Own(quoted(text))));
    Row { cells: cells.into_iter().collect(), raw: Cell::Own(quoted(text)) }
}

/// Makes a row of a record of a table.
fn record<'a>(names: &[String], fields: Vec<Cow<'a, str>>, columns: &mut Columns) -> Row<'a> {
    let mut cells = Vec::with_capacity(fields.len().min(MAX_COLUMNS));
    let mut written = Vec::with_capacity(fields.len());
    for (name, field) in names.iter().zip(fields) {
        let value = match field {
            Cow::Borrowed(field) => {
                delimited::plain(field).map_or_else(|| Cell::Own(quoted(field)), Cell::Raw)
            }
            Cow::Owned(field) => Cell::Own(delimited::value(&field)),
        };
        written.push(format!("{}:{}", text::quoted(name), value.raw().get()));
        if let Some(column) = columns.of(name) {
            put(&mut cells, column, value);
        }
    }
    let raw = format!("{{{}}}", written.join(","));
    Row { cells, raw: Cell::Own(RawValue::from_string(raw).unwrap_or_default()) }
}

/// Makes a row of an entry of an object: its key, and the entries of its value or the value.
fn entry<'a>(key: &str, value: &'a RawValue, columns: &mut Columns) -> Row<'a> {
    let key = quoted(key);
    let mut cells: Vec<_> = columns.of(KEY).map(|column| (column, Cell::Own(key))).into_iter().collect();
    for (column, cell) in element(value, columns).cells {
        put(&mut cells, column, cell);
    }
    let written = cells.iter().filter_map(|(column, cell)| {
        let name = columns.names.get(*column)?;
        Some(format!("{}:{}", text::quoted(name), cell.raw().get()))
    });
    let raw = format!("{{{}}}", written.collect::<Vec<_>>().join(","));
    Row { cells, raw: Cell::Own(RawValue::from_string(raw).unwrap_or_default()) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn within(bounds: Bounds, seconds: u64, json: &str) -> Result<(Vec<String>, usize), SqlError> {
        let raw = json::parse(json).unwrap();
        let text = json::string(raw);
        let rows = Rows::within(bounds, raw, text.as_deref(), Deadline::after(Duration::from_secs(seconds)))?;
        Ok((rows.columns, rows.size))
    }

    fn columns(json: &str) -> (Vec<String>, usize) {
        within(MAX, 600, json).unwrap()
    }

    #[test]
    fn rows_are_found_in_lists_objects_and_texts() {
        let names = |names: &[&str], size| (names.iter().map(|&name| name.to_owned()).collect(), size);
        assert_eq!(columns(r#"[{"a":1},{"b":2,"a":3}]"#), names(&["a", "b"], 2));
        assert_eq!(columns(r#"{"items":[{"a":1}],"total":1}"#), names(&["a"], 1));
        assert_eq!(columns("[1,2]"), names(&["value"], 2));
        assert_eq!(columns(r#"{"x":{"n":1},"y":{ }}"#), names(&["key", "n"], 2));
        assert_eq!(columns(r#"{"x":1,"y":2}"#), names(&["key", "value"], 2));
        assert_eq!(columns("7"), names(&["value"], 1));
        assert_eq!(columns(r#""one\n\ntwo""#), names(&["line"], 2));
        assert_eq!(columns(r#""{\"a\":1}\n{\"a\":2}""#), names(&["a"], 2));
        assert_eq!(columns(r#""id,name\n1,a\n2,b\n""#), names(&["id", "name"], 2));
        assert_eq!(columns("[]"), names(&["value"], 0));
    }

    #[test]
    fn names_of_columns_are_apart_for_sqlite() {
        let json = r#"[{"Id":1,"id":2,"ID":3,"rowid":4,"":5,"a\u0000":6}]"#;
        assert_eq!(columns(json).0, ["Id", "id_2", "ID_3", "rowid_2"]);
        assert_eq!(
            columns(r#"[{"a_2":1,"A":2,"a":3,"OID_2":4,"oid":5}]"#).0,
            ["a_2", "A", "a_3", "OID_2", "oid_3"]
        );
    }

    #[test]
    fn rows_and_values_beyond_their_limits_are_an_error() {
        for (json, rows, values) in [
            ("[1,2,3]", 3, 3),
            (r#"{"rows":[{"a":1,"b":2},{"a":2}],"total":2}"#, 2, 3),
            (r#"{"a":1,"b":2,"c":3,"d":4}"#, 4, 8),
            (r#""x\ny\n\nz""#, 3, 3),
            (r#"[{"a":1,"a":2,"b":3}]"#, 1, 2),
        ] {
            assert_eq!(within(Bounds { rows, values, ..MAX }, 600, json).unwrap().1, rows, "{json}");
            for (bounds, seconds, problem) in [
                (Bounds { rows: rows - 1, values, ..MAX }, 600, format!("more than {} rows", rows - 1)),
                (Bounds { rows, values: values - 1, ..MAX }, 600, format!("more than {} values", values - 1)),
                (Bounds { rows, values, ..MAX }, 0, "took longer than 0ns".to_owned()),
            ] {
                let error = within(bounds, seconds, json).unwrap_err().to_string();
                assert!(error.contains(&problem), "{json}: {error}");
            }
        }
    }

    #[test]
    fn records_repeat_the_names_of_their_header_within_a_limit() {
        // Two records such as `{"id":1,"name":"a"}`.
        let json = r#""id,name\n1,a\n2,\"b\"\n""#;
        assert_eq!(within(Bounds { record_bytes: 38, ..MAX }, 600, json).unwrap().1, 2);
        let error = within(Bounds { record_bytes: 37, ..MAX }, 600, json).unwrap_err().to_string();
        assert!(error.contains("more than 37 bytes"), "{error}");
    }
}
