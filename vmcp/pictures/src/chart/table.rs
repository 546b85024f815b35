//! Rows as a chart takes them.

use super::ChartError;
use super::dates::Moment;
use crate::font;

/// Most rows of a chart.
pub const MAX_ROWS: usize = 200_000;
/// Most series: more colors cannot be told apart.
pub const MAX_SERIES: usize = 12;
/// Largest magnitude of a number.
pub const MAX_NUMBER: f64 = 1e100;

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// None, or not a number.
    Missing,
    /// A number.
    Number(f64),
    /// A text; it may be a date in ISO 8601.
    Text(String),
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Place on the horizontal axis; the values of a histogram.
    pub x: Cell,
    /// The value; unused by a histogram.
    pub y: Cell,
    /// The series, if there are several.
    pub series: Option<String>,
}

/// Places on the horizontal axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Places {
    /// Categories in their order; a point has the number of its own.
    Categories(Vec<String>),
    Numbers,
    /// Seconds since 1970.
    Dates,
}

/// Points of one name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    pub(super) name: String,
    /// Horizontal place and value; a missing value leaves a gap.
    pub(super) points: Vec<(f64, Option<f64>)>,
}

/// Rows as series.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    pub(super) places: Places,
    pub(super) series: Vec<Series>,
    /// Remarks on rows that are left out.
    pub(super) notes: Vec<String>,
}

/// Widest text of a category and of a series, in units of the font's size.
const MAX_LABEL: f64 = 60.0;

impl Table {
    /// Sorts rows into series. `as_categories`: numbers and dates are categories, in rising order.
    pub(super) fn new(rows: Vec<Row>, as_categories: bool) -> Result<Table, ChartError> {
        let given = rows.len();
        let numbered = rows.into_iter().enumerate();
        let rows: Vec<(usize, Row)> = numbered.filter(|(_, row)| !is_missing(&row.x)).collect();
        let mut notes = Vec::new();
        if rows.len() < given {
            notes.push(format!("{} of {given} rows without x left out", given - rows.len()));
        }
        let mut places = common_places(&rows);
        let mut names: Vec<String> = Vec::new();
        let mut known = std::collections::HashMap::new();
        let mut points = Vec::with_capacity(rows.len());
        for (number, row) in rows {
            let x = match (&mut places, row.x) {
                (Places::Categories(_), Cell::Text(text)) => category(&text, &mut names, &mut known),
                (Places::Categories(_), Cell::Number(value)) => {
                    category(&super::number::exact(value), &mut names, &mut known)
                }
                (Places::Numbers, x) => number_of(&x, "x", number)?.unwrap_or_default(),
                (Places::Dates, Cell::Text(text)) => {
                    Moment::parse(&text).map_or(0.0, |moment| moment.seconds)
                }
                (Places::Dates, _) | (_, Cell::Missing) => 0.0,
            };
            points.push((x, number_of(&row.y, "y", number)?, row.series.unwrap_or_default()));
        }
        if let Places::Categories(all) = &mut places {
            *all = names;
        }
        let missing = points.iter().filter(|(_, y, _)| y.is_none()).count();
        if missing == points.len() {
            return Err(ChartError::Empty);
        }
        if missing > 0 {
            notes.push(format!("{missing} of {given} rows without y left out"));
        }
        if as_categories {
            categorize(&mut places, &mut points);
        }
        Ok(Table { places, series: series(points)?, notes })
    }

    /// Returns the least and the largest value.
    pub(super) fn range(&self) -> (f64, f64) {
        range(self.series.iter().flat_map(|series| &series.points).filter_map(|(_, y)| *y))
    }

    /// Returns the least and the largest place.
    pub(super) fn width(&self) -> (f64, f64) {
        range(self.series.iter().flat_map(|series| &series.points).map(|(x, _)| *x))
    }
}

/// Returns the least and the largest of numbers; `(0, 0)` without any.
pub(super) fn range(numbers: impl Iterator<Item = f64>) -> (f64, f64) {
    let both = numbers.map(|number| (number, number));
    both.reduce(|(least, most), (number, _)| (least.min(number), most.max(number))).unwrap_or_default()
}

/// True for a place without a number: None, NaN, infinity.
fn is_missing(cell: &Cell) -> bool {
    match cell {
        Cell::Missing => true,
        Cell::Number(value) => !value.is_finite(),
        Cell::Text(_) => false,
    }
}

/// Returns the kind of places that all rows have.
fn common_places(rows: &[(usize, Row)]) -> Places {
    if rows.iter().all(|(_, row)| matches!(row.x, Cell::Number(_))) {
        return Places::Numbers;
    }
    let is_date =
        |(_, row): &(usize, Row)| matches!(&row.x, Cell::Text(text) if Moment::parse(text).is_some());
    if rows.iter().all(is_date) { Places::Dates } else { Places::Categories(Vec::new()) }
}

/// Returns the number of a category, which gets the next one if it is new.
fn category(
    text: &str,
    names: &mut Vec<String>,
    known: &mut std::collections::HashMap<String, usize>,
) -> f64 {
    let next = names.len();
    *known.entry(text.to_owned()).or_insert_with(|| {
        names.push(font::cut(text, MAX_LABEL));
        next
    }) as f64
}

/// Reads a number; a text of digits counts.
pub(super) fn number_of(cell: &Cell, argument: &'static str, row: usize) -> Result<Option<f64>, ChartError> {
    let value = match cell {
        Cell::Missing => return Ok(None),
        Cell::Number(value) => *value,
        Cell::Text(text) => {
            let refused = || ChartError::NotNumber { argument, row, shown: font::cut(text, 30.0) };
            text.trim().parse().map_err(|_| refused())?
        }
    };
    if !value.is_finite() {
        return Ok(None);
    }
    if value.abs() > MAX_NUMBER {
        return Err(ChartError::TooLarge { argument, row });
    }
    // Below, steps of an axis would leave the range of floats.
    Ok(Some(if value.abs() < 1.0 / MAX_NUMBER { 0.0 } else { value }))
}

/// Makes categories of numbers and dates, in rising order.
fn categorize(places: &mut Places, points: &mut [(f64, Option<f64>, String)]) {
    let is_date = match places {
        Places::Categories(_) => return,
        Places::Numbers => false,
        Places::Dates => true,
    };
    let mut all: Vec<f64> = points.iter().map(|(x, ..)| *x).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    for (x, ..) in points {
        *x = all.partition_point(|other| other < x) as f64;
    }
    let with_time = all.iter().any(|seconds| seconds.rem_euclid(86_400.0) != 0.0);
    let text = |value: f64| {
        if is_date { Moment { seconds: value }.text(with_time) } else { super::number::exact(value) }
    };
    *places = Places::Categories(all.into_iter().map(text).collect());
}

/// Sorts points by the names of their series, in the order of the rows.
fn series(points: Vec<(f64, Option<f64>, String)>) -> Result<Vec<Series>, ChartError> {
    let mut all: Vec<Series> = Vec::new();
    for (x, y, name) in points {
        if let Some(series) = all.iter_mut().find(|series| series.name == name) {
            series.points.push((x, y));
        } else if all.len() == MAX_SERIES {
            return Err(ChartError::Series);
        } else {
            all.push(Series { name, points: vec![(x, y)] });
        }
    }
    // After the sorting, so that series with a long beginning in common stay apart.
    for series in &mut all {
        series.name = font::cut(&series.name, MAX_LABEL);
    }
    Ok(all)
}
