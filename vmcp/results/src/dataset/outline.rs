//! The outline of a table: names and types of its columns, for a language model that writes a query. Values
//! show only in the rows that were asked for.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::value::RawValue;

use super::DatasetError;
use super::memory::Deadline;
use super::rows::Rows;
use crate::json::{self, Kind};
use crate::{Content, shape};

/// Rows whose types are read, evenly spaced.
const SAMPLES: usize = 50;
/// Bytes of the shape of a list or an object in a column.
const MAX_SHAPE_BYTES: usize = 200;
/// Characters of one shown row; a longer one is cut.
const MAX_ROW_CHARS: usize = 500;

/// The outline of a table.
#[derive(Debug, PartialEq, Eq)]
pub struct Outline {
    /// Number of rows.
    pub rows: usize,
    /// Columns in their order.
    pub columns: Vec<Column>,
    /// First rows as JSON, each cut at 500 characters.
    pub first_rows: Vec<String>,
}

/// A column of a table.
#[derive(Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Types of its values, such as `integer | null`, and the shapes of nested ones.
    pub types: String,
}

/// Returns the outline of data, with the values of the first `first_rows` rows. Blocks for at most about
/// `timeout`.
pub fn outline(data: &RawValue, first_rows: usize, timeout: Duration) -> Result<Outline, DatasetError> {
    let text = json::string(data);
    let rows = Rows::of(data, text.as_deref(), Deadline::after(timeout))?;
    let step = rows.all.len().div_ceil(SAMPLES).max(1);
    let columns = rows.columns.iter().enumerate().map(|(position, name)| {
        let cells = rows.all.iter().step_by(step).filter_map(|row| {
            let (_, cell) = row.cells.iter().find(|(column, _)| *column == position)?;
            Some(cell.raw())
        });
        Column { name: name.clone(), types: types(cells) }
    });
    let cut = |raw: &RawValue| raw.get().chars().take(MAX_ROW_CHARS).collect();
    Ok(Outline {
        columns: columns.collect(),
        first_rows: rows.all.iter().take(first_rows).map(|row| cut(row.raw.raw())).collect(),
        rows: rows.size,
    })
}

/// Names the types of values; a nested one has the shape of the first such value.
fn types<'a>(cells: impl Iterator<Item = &'a RawValue>) -> String {
    let mut kinds = BTreeSet::new();
    let mut names = Vec::new();
    for cell in cells {
        let kind = json::kind(cell);
        if kinds.insert(kind) {
            names.push(match kind {
                Kind::Array | Kind::Object => {
                    let shape = shape::describe(&Content::of_json(cell), MAX_SHAPE_BYTES);
                    format!("JSON text of {shape}")
                }
                other => other.name().to_owned(),
            });
        }
    }
    if names.is_empty() { "unknown".to_owned() } else { names.join(" | ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str, first_rows: usize) -> Outline {
        outline(json::parse(json).unwrap(), first_rows, Duration::from_mins(1)).unwrap()
    }

    #[test]
    fn an_outline_has_names_and_types_and_no_values() {
        let json = r#"[{"id":1,"who":"secret","at":null,"tags":["hidden"]},{"id":2.5,"at":true}]"#;
        let found = of(json, 0);
        let columns: Vec<_> =
            found.columns.iter().map(|column| (column.name.as_str(), column.types.as_str())).collect();
        assert_eq!(
            columns,
            [
                ("id", "integer | number"),
                ("who", "string"),
                ("at", "null | boolean"),
                ("tags", "JSON text of string[1]")
            ]
        );
        assert_eq!((found.rows, found.first_rows.len()), (2, 0));
        let shown = format!("{found:?}");
        assert!(!shown.contains("secret") && !shown.contains("hidden"), "{shown}");
    }

    #[test]
    fn rows_show_when_asked_for_and_are_cut() {
        let long = format!(r#"[{{"a":"{}"}},{{"a":"b"}},{{"a":"c"}}]"#, "x".repeat(5_000));
        let rows = of(&long, 2).first_rows;
        assert_eq!((rows.len(), rows[0].chars().count(), rows[1].as_str()), (2, 500, r#"{"a":"b"}"#));
        assert_eq!(of("[]", 3).columns[0].types, "unknown");
    }
}
