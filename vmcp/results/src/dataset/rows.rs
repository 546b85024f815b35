//! Rows of a dataset: elements of a list, entries of an object, lines of a text.

use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::json::{self, Kind};
use crate::preview::quoted;
use crate::shape::only_array;

/// Columns of a table; further keys are left out.
pub(crate) const MAX_COLUMNS: usize = 200;
/// Longest name of a column, in bytes; longer keys are left out.
const MAX_NAME_BYTES: usize = 200;
/// Column of rows of other types than objects.
pub(crate) const VALUE: &str = "value";
/// Column of the keys of an object.
const KEY: &str = "key";
/// Column of the lines of a text.
const LINE: &str = "line";

/// One row: its cells by column, and its JSON as it came.
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
    taken: HashMap<String, usize>,
}

impl Columns {
    /// Returns the column of a key. A key that differs from another by letter case alone gets a number.
    fn of(&mut self, key: &str) -> Option<usize> {
        if let Some(column) = self.by_key.get(key) {
            return *column;
        }
        let unusable = key.is_empty() || key.len() > MAX_NAME_BYTES || key.contains('\0');
        let column = (!unusable && self.names.len() < MAX_COLUMNS).then(|| {
            let number = self.taken.entry(key.to_lowercase()).or_insert(0);
            *number += 1;
            let is_rowid = ["rowid", "oid", "_rowid_"].contains(&key.to_lowercase().as_str());
            let name = match *number {
                1 if !is_rowid => key.to_owned(),
                number => format!("{key}_{}", number + usize::from(is_rowid)),
            };
            self.taken.entry(name.to_lowercase()).or_insert(1);
            self.names.push(name);
            self.names.len() - 1
        });
        self.by_key.insert(key.to_owned(), column);
        column
    }
}

impl<'a> Rows<'a> {
    /// Reads the rows of data; `text` is the text of a JSON string.
    pub(crate) fn of(data: &'a RawValue, text: Option<&'a str>) -> Rows<'a> {
        let mut columns = Columns::default();
        let rows: Vec<Row<'a>> = match (text, json::kind(data)) {
            (Some(text), _) => lines(text, &mut columns),
            (None, Kind::Array) => {
                let items = json::items(data).unwrap_or_default();
                items.into_iter().map(|item| element(item, &mut columns)).collect()
            }
            (None, Kind::Object) => match only_array(data) {
                Some((_, items)) => items.into_iter().map(|item| element(item, &mut columns)).collect(),
                None => entries(data, &mut columns),
            },
            _ => vec![element(data, &mut columns)],
        };
        if columns.names.is_empty() {
            columns.of(VALUE);
        }
        Rows { columns: columns.names, size: rows.len(), all: rows }
    }
}

/// Makes a row of an element: an object's entries, or the value.
fn element<'a>(raw: &'a RawValue, columns: &mut Columns) -> Row<'a> {
    let cells = match json::entries(raw) {
        Some(entries) => {
            let cell = |(key, value): (String, &'a RawValue)| Some((columns.of(&key)?, Cell::Raw(value)));
            entries.into_iter().filter_map(cell).collect()
        }
        None => columns.of(VALUE).into_iter().map(|column| (column, Cell::Raw(raw))).collect(),
    };
    Row { cells, raw: Cell::Raw(raw) }
}

/// Makes a row of each line; a line that is a JSON object is that object (NDJSON).
fn lines<'a>(text: &'a str, columns: &mut Columns) -> Vec<Row<'a>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let row = |line: &'a str| {
        let parsed = json::parse(line).filter(|raw| json::kind(raw) == Kind::Object);
        if let Some(raw) = parsed {
            return element(raw, columns);
        }
        let cells = columns.of(LINE).map(|column| (column, Cell::Own(quoted(line))));
        Row { cells: cells.into_iter().collect(), raw: Cell::Own(quoted(line)) }
    };
    lines.map(row).collect()
}

/// Makes a row of each entry of an object: its key, and the entries of its value or the value.
fn entries<'a>(data: &'a RawValue, columns: &mut Columns) -> Vec<Row<'a>> {
    let row = |(key, value): (String, &'a RawValue)| {
        let key = quoted(&key);
        let mut cells: Vec<_> =
            columns.of(KEY).map(|column| (column, Cell::Own(key.clone()))).into_iter().collect();
        let inner = element(value, columns);
        cells.extend(inner.cells);
        let written = cells.iter().filter_map(|(column, cell)| {
            let name = columns.names.get(*column)?;
            Some(format!("{}:{}", quoted(name).get(), cell.raw().get()))
        });
        let raw = format!("{{{}}}", written.collect::<Vec<_>>().join(","));
        Row { cells, raw: Cell::Own(RawValue::from_string(raw).unwrap_or_default()) }
    };
    json::entries(data).unwrap_or_default().into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(json: &str) -> (Vec<String>, usize) {
        let raw = json::parse(json).unwrap();
        let text = json::string(raw);
        let rows = Rows::of(raw, text.as_deref());
        (rows.columns, rows.size)
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
        assert_eq!(columns("[]"), names(&["value"], 0));
    }

    #[test]
    fn names_of_columns_are_apart_for_sqlite() {
        let json = r#"[{"Id":1,"id":2,"ID":3,"rowid":4,"":5,"a\u0000":6}]"#;
        assert_eq!(columns(json).0, ["Id", "id_2", "ID_3", "rowid_2"]);
    }
}
