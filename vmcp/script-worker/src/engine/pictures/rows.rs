//! Tables of scripts as rows of a chart: lists of dicts, lists of lists, lists of numbers, a dict of lists, a
//! dict of values.

use std::borrow::Cow;

use monty_types::MontyObject;
use vmcp_pictures::chart::{Cell, Kind, MAX_ROWS, Row};

use super::{RefusedPicture, type_error, value_error};
use crate::engine::values;

/// Most columns that an error names.
const MAX_NAMED: usize = 10;

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Column {
    /// By its name.
    Name(String),
    /// By its place, from 0.
    Place(usize),
}

impl Column {
    fn name(&self) -> Option<String> {
        match self {
            Column::Name(name) => Some(name.clone()),
            Column::Place(_) => None,
        }
    }

    fn shown(&self) -> String {
        match self {
            Column::Name(name) => format!("{name:?}"),
            Column::Place(place) => place.to_string(),
        }
    }
}

/// Columns of a chart, as far as the script names them.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) x: Option<Column>,
    /// Several are a series each.
    pub(super) y: Vec<Column>,
    pub(super) series: Option<Column>,
}

/// Rows, and the names of their columns.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) rows: Vec<Row>,
    pub(super) x_name: Option<String>,
    pub(super) y_name: Option<String>,
}

/// A table in one of its forms.
enum Table<'a> {
    /// A list of rows.
    Rows(&'a [MontyObject]),
    /// Lists by their names.
    Columns(Vec<(&'a MontyObject, &'a [MontyObject])>),
    /// Names with a value each.
    Pairs(Vec<(&'a MontyObject, &'a MontyObject)>),
}

/// Reads the rows of a chart.
pub(super) fn read(rows: &MontyObject, mut columns: Columns, kind: Kind) -> Result<Read, RefusedPicture> {
    let table = Table::of(rows)?;
    let length = table.length();
    let drawn = length.saturating_mul(columns.y.len().max(1));
    if drawn > MAX_ROWS {
        return Err(value_error(format!(
            "rows: {drawn} values; the limit is {MAX_ROWS}: aggregate them first"
        )));
    }
    if kind == Kind::Histogram {
        // The values of a histogram lie on its horizontal axis, whichever argument names them.
        let one = columns.x.take().or_else(|| columns.y.pop());
        columns = Columns { x: one.or_else(|| table.column(0)), ..Columns::default() };
    }
    if !matches!(table, Table::Pairs(_)) && !table.is_flat() {
        columns.x = columns.x.or_else(|| table.column(0));
        if columns.y.is_empty() && kind != Kind::Histogram {
            columns.y.extend(table.column(1));
        }
    }
    if length > 0 {
        columns.x.iter().try_for_each(|column| table.check("x", column))?;
        columns.y.iter().try_for_each(|column| table.check("y", column))?;
        columns.series.iter().try_for_each(|column| table.check("series", column))?;
    }
    let x_name = columns.x.as_ref().and_then(Column::name);
    let y_name = if let [only] = columns.y.as_slice() { only.name() } else { None };
    let mut read = Vec::with_capacity(drawn);
    let is_flat = table.is_flat();
    for place in 0..length {
        let series = columns.series.as_ref().map(|column| label(table.cell(place, column)));
        let (x, value) = match &table {
            Table::Pairs(pairs) => {
                let (key, value) = pairs
                    .get(place)
                    .map_or((Cell::Missing, Cell::Missing), |(key, value)| (cell(key), cell(value)));
                if kind == Kind::Histogram { (value, Cell::Missing) } else { (key, value) }
            }
            Table::Rows(rows) if is_flat => {
                let value = rows.get(place).map_or(Cell::Missing, cell);
                if kind == Kind::Histogram {
                    (value, Cell::Missing)
                } else {
                    (Cell::Number(place as f64), value)
                }
            }
            _ => {
                let x = columns
                    .x
                    .as_ref()
                    .and_then(|column| table.cell(place, column))
                    .map_or(Cell::Missing, cell);
                let several = columns.y.len() > 1;
                for column in &columns.y {
                    let value = table.cell(place, column).map_or(Cell::Missing, cell);
                    let own = several.then(|| column.name().unwrap_or_else(|| column.shown()));
                    let series = match (own, &series) {
                        (Some(own), Some(series)) => Some(format!("{series}, {own}")),
                        (own, series) => own.or_else(|| series.clone()),
                    };
                    read.push(Row { x: x.clone(), y: value, series });
                }
                if !columns.y.is_empty() {
                    continue;
                }
                (x, Cell::Missing)
            }
        };
        read.push(Row { x, y: value, series });
    }
    Ok(Read { rows: read, x_name, y_name })
}

impl<'a> Table<'a> {
    fn of(rows: &'a MontyObject) -> Result<Table<'a>, RefusedPicture> {
        match rows {
            MontyObject::List(rows) | MontyObject::Tuple(rows) => Ok(Table::Rows(rows)),
            MontyObject::Dict(pairs) => {
                let lists: Option<Vec<_>> =
                    pairs.into_iter().map(|(key, value)| Some((key, items(value)?))).collect();
                Ok(match lists.filter(|lists| !lists.is_empty()) {
                    Some(lists) => Table::Columns(lists),
                    None => Table::Pairs(pairs.into_iter().map(|(key, value)| (key, value)).collect()),
                })
            }
            _ => Err(type_error("rows must be a list of dicts, a list of lists or numbers, or a dict")),
        }
    }

    fn length(&self) -> usize {
        match self {
            Table::Rows(rows) => rows.len(),
            Table::Columns(columns) => columns.iter().map(|(_, items)| items.len()).max().unwrap_or_default(),
            Table::Pairs(pairs) => pairs.len(),
        }
    }

    /// True for a list of values alone.
    fn is_flat(&self) -> bool {
        let is_row = |value: &MontyObject| items(value).is_some() || entries(value).is_some();
        matches!(self, Table::Rows(rows) if !rows.first().is_some_and(is_row))
    }

    /// Returns the column at a place of the first row.
    fn column(&self, place: usize) -> Option<Column> {
        let named = |key: &MontyObject| Column::Name(values::text(key));
        match self {
            Table::Columns(columns) => columns.get(place).map(|(key, _)| named(key)),
            Table::Rows(rows) => match rows.first()? {
                row if items(row).is_some() => Some(Column::Place(place)),
                row => entries(row)?.get(place).map(|(key, _)| Column::Name(key.clone().into_owned())),
            },
            Table::Pairs(_) => None,
        }
    }

    fn cell(&self, row: usize, column: &Column) -> Option<&'a MontyObject> {
        match (self, column) {
            (Table::Columns(columns), Column::Name(name)) => {
                columns.iter().find(|(key, _)| is_named(key, name))?.1.get(row)
            }
            (Table::Columns(columns), Column::Place(place)) => columns.get(*place)?.1.get(row),
            (Table::Rows(rows), Column::Place(place)) => match items(rows.get(row)?) {
                Some(items) => items.get(*place),
                None => entries(rows.get(row)?)?.get(*place).map(|(_, value)| *value),
            },
            (Table::Rows(rows), Column::Name(name)) => match rows.get(row)? {
                MontyObject::Dict(pairs) => {
                    pairs.into_iter().find(|(key, _)| is_named(key, name)).map(|(_, value)| value)
                }
                other => entries(other)?.into_iter().find(|(key, _)| key == name).map(|(_, value)| value),
            },
            (Table::Pairs(_), _) => None,
        }
    }

    /// Fails if no row has a column.
    fn check(&self, argument: &str, column: &Column) -> Result<(), RefusedPicture> {
        if matches!(self, Table::Pairs(_)) || self.is_flat() {
            // These have no columns; a name serves as the label of the axis.
            return Ok(());
        }
        if (0..self.length()).any(|row| self.cell(row, column).is_some()) {
            return Ok(());
        }
        let known: Vec<String> =
            (0..MAX_NAMED).map_while(|place| self.column(place)).map(|it| it.shown()).collect();
        let known = known.join(", ");
        let column = column.shown();
        Err(value_error(format!("{argument}: no row has the column {column}; the first row has {known}")))
    }
}

/// Returns the items of a row that is a list.
fn items(value: &MontyObject) -> Option<&[MontyObject]> {
    match value {
        MontyObject::List(items) | MontyObject::Tuple(items) => Some(items),
        _ => None,
    }
}

/// Returns the entries of a row with names.
fn entries(value: &MontyObject) -> Option<Vec<(Cow<'_, str>, &MontyObject)>> {
    match value {
        MontyObject::Dict(pairs) => {
            Some(pairs.into_iter().map(|(key, value)| (Cow::from(values::text(key)), value)).collect())
        }
        MontyObject::NamedTuple { field_names, values, .. } => {
            Some(field_names.iter().map(|name| Cow::from(name.as_str())).zip(values).collect())
        }
        MontyObject::ClassInstance(instance) => Some(
            (&instance.attrs).into_iter().map(|(key, value)| (Cow::from(values::text(key)), value)).collect(),
        ),
        _ => None,
    }
}

fn is_named(key: &MontyObject, name: &str) -> bool {
    match key {
        MontyObject::String(key) => key == name,
        other => values::text(other) == name,
    }
}

fn label(value: Option<&MontyObject>) -> String {
    match value.map(cell) {
        None | Some(Cell::Missing) => "None".to_owned(),
        Some(Cell::Number(number)) => number.to_string(),
        Some(Cell::Text(text)) => text,
    }
}

/// Returns a value as a cell. Texts stay whole, because categories and series are told apart by them; the
/// chart cuts them where it shows them.
fn cell(value: &MontyObject) -> Cell {
    match value {
        MontyObject::None => Cell::Missing,
        MontyObject::Bool(value) => Cell::Number(f64::from(u8::from(*value))),
        MontyObject::Int(value) => Cell::Number(*value as f64),
        MontyObject::Float(value) if value.is_nan() => Cell::Missing,
        MontyObject::Float(value) => Cell::Number(*value),
        MontyObject::BigInt(value) => Cell::Number(value.to_string().parse().unwrap_or(f64::INFINITY)),
        MontyObject::Date(date) => Cell::Text(format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)),
        MontyObject::DateTime(at) => {
            let date = format!("{:04}-{:02}-{:02}", at.year, at.month, at.day);
            let zone = at.offset_seconds.map_or_else(String::new, |offset| {
                let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs() / 60);
                format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            });
            Cell::Text(format!(
                "{date}T{:02}:{:02}:{:02}.{:06}{zone}",
                at.hour, at.minute, at.second, at.microsecond
            ))
        }
        MontyObject::String(text) => Cell::Text(text.clone()),
        other => Cell::Text(values::text(other)),
    }
}
