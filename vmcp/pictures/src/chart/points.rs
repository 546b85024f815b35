//! Lines and dots.

use super::axes::Horizontal;
use super::canvas::color;
use super::frame::{Contents, Frame};
use super::table::{Places, Row, Series, Table};
use super::{Chart, ChartError, Drawn, Kind, thin};

/// Most dots of one series; of more, one of several is drawn.
const MAX_DOTS: usize = 8000;
/// Most points of a line that get a dot each.
const MAX_MARKED: usize = 40;
/// Most categories of texts on the axis.
const MAX_TEXTS: usize = 400;
/// Share of the largest value below which an axis begins at zero.
const NEAR_ZERO: f64 = 0.5;

/// Draws a line chart or a scatter chart.
pub(super) fn draw(chart: &Chart, rows: Vec<Row>) -> Result<Drawn, ChartError> {
    let mut table = Table::new(rows, false)?;
    if let Places::Categories(names) = &mut table.places
        && names.len() > MAX_TEXTS
    {
        let all = names.len();
        names.truncate(MAX_TEXTS);
        for series in &mut table.series {
            series.points.retain(|(x, _)| *x < MAX_TEXTS as f64);
        }
        table.notes.push(format!("the {MAX_TEXTS} first of {all} categories"));
    }
    if chart.kind == Kind::Line {
        for series in &mut table.series {
            series.points.sort_by(|one, other| one.0.total_cmp(&other.0));
        }
    }
    if chart.kind == Kind::Scatter
        && let Some(most) = table.series.iter().map(|series| series.points.len()).max()
        && most > MAX_DOTS
    {
        table.notes.push(format!("of dots on each other one is drawn, at most {MAX_DOTS} a series"));
    }
    let (least, most) = table.range();
    let least = if least > 0.0 && least < most * NEAR_ZERO { 0.0 } else { least };
    let most = if most < 0.0 && most > least * NEAR_ZERO { 0.0 } else { most };
    let contents = Contents {
        horizontal: &|width| Horizontal::new(&table, width),
        range: (least, most),
        names: table.series.iter().map(|it| it.name.as_str()).collect(),
        notes: table.notes.clone(),
    };
    let mut frame = Frame::new(chart, contents);
    for (number, series) in table.series.iter().enumerate() {
        match chart.kind {
            Kind::Scatter => dots(&mut frame, number, series),
            _ => lines(&mut frame, number, series),
        }
    }
    Ok(frame.finish())
}

fn dots(frame: &mut Frame, number: usize, series: &Series) {
    let drawn = series.points.iter().filter_map(|(x, y)| Some((frame.x(*x), frame.y((*y)?))));
    let points: Vec<(f64, f64)> = drawn.collect();
    let points = thin::dots(&points, MAX_DOTS);
    let diameter = if points.len() > 1000 { 3.5 } else { 6.5 };
    frame.canvas.dots(&points, color(number), diameter, 0.75);
}

/// Draws a line that a missing value interrupts.
fn lines(frame: &mut Frame, number: usize, series: &Series) {
    let marked = series.points.len() <= MAX_MARKED;
    for part in series.points.split(|(_, y)| y.is_none()) {
        let drawn = part.iter().filter_map(|(x, y)| Some((frame.x(*x), frame.y((*y)?))));
        let points = thin::line(drawn.collect(), frame.plot.2);
        if points.len() > 1 {
            frame.canvas.polyline(&points, color(number));
        }
        // A point between two gaps has no line.
        if (marked || points.len() == 1) && !points.is_empty() {
            frame.canvas.dots(&points, color(number), 5.5, 1.0);
        }
    }
}
