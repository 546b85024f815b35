//! The call `plot(…)` as a chart.

use monty_types::MontyObject;
use vmcp_pictures::chart::{Chart, Kind};
use vmcp_pictures::png;
use vmcp_script::picture::PictureFormat;

use super::rows::{Column, Columns, Read};
use super::{Drawn, RefusedPicture, check_names, format_of, pixels, text_of, type_error, value_error};
use crate::engine::arguments::GivenArguments;

/// Names of the arguments, in their order.
const ARGUMENTS: [&str; 12] =
    ["kind", "rows", "x", "y", "series", "title", "x_label", "y_label", "bins", "width", "height", "format"];
/// Arguments that may stand without their name.
const BY_PLACE: usize = 4;
/// Longest text of a title or label, in characters; the rest is cut off.
const MAX_TEXT: usize = 300;

/// Draws the chart of a call.
pub(super) fn draw(given: &GivenArguments<'_>) -> Result<Drawn, RefusedPicture> {
    check_names(given, &ARGUMENTS, BY_PLACE)?;
    let name = text_of(given, 0, "kind")?.unwrap_or_default();
    let kind = Kind::of_name(&name)
        .ok_or_else(|| value_error(format!("kind must be one of {}", Kind::NAMES.join(", "))))?;
    let format = format_of(given)?;
    let rows = given.at(1, "rows").ok_or_else(|| type_error("rows is required"))?;
    let columns = Columns {
        x: column(given, 2, "x")?,
        y: columns(given)?,
        series: column(given, usize::MAX, "series")?,
    };
    let Read { rows, x_name, y_name } = super::rows::read(rows, columns, kind)?;
    let label =
        |name: &str| Ok(text_of(given, usize::MAX, name)?.map(|text| text.chars().take(MAX_TEXT).collect()));
    let mut chart = Chart::new(kind);
    chart.title = label("title")?;
    chart.x_label = label("x_label")?.or(x_name);
    chart.y_label = label("y_label")?.or(y_name);
    chart.bins = number(given, "bins")?.map(|bins| bins as usize);
    chart.width = number(given, "width")?.unwrap_or(chart.width);
    chart.height = number(given, "height")?.unwrap_or(chart.height);
    let refused = |error: vmcp_pictures::chart::ChartError| value_error(error.to_string());
    let drawn = chart.draw(rows).map_err(refused)?;
    let (size, file) = match format {
        PictureFormat::Png => pixels(png::draw(&drawn.svg).map_err(|error| value_error(error.to_string()))?),
        PictureFormat::Svg => ((chart.width, chart.height), drawn.svg.into_bytes()),
    };
    Ok(Drawn { kind: format!("{name} chart"), format, file, size, notes: drawn.notes })
}

/// Reads a whole number; a number out of range becomes 0, which the chart refuses.
fn number(given: &GivenArguments<'_>, name: &str) -> Result<Option<u32>, RefusedPicture> {
    match given.at(usize::MAX, name) {
        None => Ok(None),
        Some(MontyObject::Int(number)) => Ok(Some(u32::try_from(*number).unwrap_or_default())),
        Some(_) => Err(type_error(format!("{name} must be a whole number"))),
    }
}

fn column_of(value: &MontyObject) -> Option<Column> {
    match value {
        MontyObject::String(name) => Some(Column::Name(name.clone())),
        MontyObject::Int(place) => usize::try_from(*place).ok().map(Column::Place),
        _ => None,
    }
}

/// Reads the name of a column, or its place in rows that are lists.
fn column(
    given: &GivenArguments<'_>,
    place: usize,
    name: &'static str,
) -> Result<Option<Column>, RefusedPicture> {
    let wrong =
        || type_error(format!("{name} must be the name of a column, or its place in rows that are lists"));
    given.at(place, name).map(|value| column_of(value).ok_or_else(wrong)).transpose()
}

/// Reads the columns of the values: none, one, or a list.
fn columns(given: &GivenArguments<'_>) -> Result<Vec<Column>, RefusedPicture> {
    match given.at(3, "y") {
        Some(MontyObject::List(names) | MontyObject::Tuple(names)) => {
            let columns: Option<Vec<Column>> = names.iter().map(column_of).collect();
            columns.ok_or_else(|| type_error("y must be a column or a list of columns"))
        }
        _ => Ok(column(given, 3, "y")?.into_iter().collect()),
    }
}
