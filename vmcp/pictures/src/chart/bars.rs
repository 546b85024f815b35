//! Bars: one group a category, one bar a series.

use super::axes::Horizontal;
use super::canvas::color;
use super::frame::{Contents, Frame};
use super::number::short;
use super::table::{Places, Row, Series, Table, range};
use super::{Chart, ChartError, Drawn};

/// Most categories of texts; of more, the largest are drawn.
pub(super) const MAX_TEXTS: usize = 50;
/// Most categories of numbers and dates, which keep their order; with more, bars would be thinner than a
/// pixel.
pub(super) const MAX_ORDERED: usize = 400;
/// Most bars that have a tip for viewers with a pointer.
const MAX_TIPS: usize = 500;

/// Draws bars. Values of one category and series are added.
pub(super) fn draw(chart: &Chart, rows: Vec<Row>) -> Result<Drawn, ChartError> {
    let is_text = rows
        .iter()
        .any(|row| matches!(&row.x, super::Cell::Text(text) if super::dates::Moment::parse(text).is_none()));
    let mut table = Table::new(rows, true)?;
    for series in &mut table.series {
        series.points = added(&series.points);
    }
    keep(&mut table, if is_text { MAX_TEXTS } else { MAX_ORDERED }, is_text);
    let Table { places, series, notes } = table;
    let Places::Categories(names) = places else { return Err(ChartError::Empty) };
    let (least, most) = range(series.iter().flat_map(|it| &it.points).filter_map(|(_, y)| *y));
    let contents = Contents {
        horizontal: &|width| Horizontal::bands(&names, width),
        range: (least.min(0.0), most.max(0.0)),
        names: series.iter().map(|it| it.name.as_str()).collect(),
        notes,
    };
    let mut frame = Frame::new(chart, contents);
    let band = frame.plot.2 / names.len().max(1) as f64;
    let group = (band * 0.8).min(120.0 * series.len() as f64);
    let bar = group / series.len().max(1) as f64;
    let base = frame.y(0.0);
    let with_tips = names.len() * series.len() <= MAX_TIPS;
    for (number, series) in series.iter().enumerate() {
        for (place, value) in series.points.iter().filter_map(|(x, y)| Some((*x, (*y)?))) {
            let x = frame.x(place) - group / 2.0 + bar * number as f64;
            let end = frame.y(value);
            // A value beside zero stays visible.
            let height = (base - end).abs().max(if value == 0.0 { 0.0 } else { 0.7 });
            let top = if value >= 0.0 { base - height } else { base };
            let gap = if bar > 6.0 { 1.0 } else { 0.0 };
            let tip = with_tips.then(|| tip(names.get(place as usize), &series.name, value));
            frame.canvas.rect((x, top, (bar - gap).max(0.5), height), color(number), tip.as_deref());
        }
    }
    Ok(frame.finish())
}

fn tip(category: Option<&String>, series: &str, value: f64) -> String {
    let category = category.map(String::as_str).unwrap_or_default();
    if series.is_empty() {
        format!("{category}: {}", short(value))
    } else {
        format!("{category}, {series}: {}", short(value))
    }
}

/// Adds the values of each place.
fn added(points: &[(f64, Option<f64>)]) -> Vec<(f64, Option<f64>)> {
    let mut sorted: Vec<(f64, f64)> = points.iter().filter_map(|(x, y)| Some((*x, (*y)?))).collect();
    sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
    let sums = sorted.chunk_by(|one, other| one.0.total_cmp(&other.0).is_eq());
    let sum = |points: &[(f64, f64)]| Some((points.first()?.0, Some(points.iter().map(|(_, y)| y).sum())));
    sums.filter_map(sum).collect()
}

/// Keeps at most `most` categories: the largest of texts, the first of numbers and dates.
fn keep(table: &mut Table, most: usize, is_text: bool) {
    let Places::Categories(names) = &mut table.places else { return };
    if names.len() <= most {
        return;
    }
    let all = names.len();
    let mut sizes = vec![0.0_f64; all];
    for (x, y) in table.series.iter().flat_map(|Series { points, .. }| points) {
        if let (Some(size), Some(y)) = (sizes.get_mut(*x as usize), y) {
            *size += y.abs();
        }
    }
    let mut order: Vec<usize> = (0..all).collect();
    if is_text {
        let size = |place: &usize| sizes.get(*place).copied().unwrap_or_default();
        order.sort_by(|one, other| size(other).total_cmp(&size(one)));
    }
    order.truncate(most);
    // A kept category has its new place; texts stand from the largest to the smallest.
    let mut places = vec![None; all];
    for (new, old) in order.iter().enumerate() {
        if let Some(place) = places.get_mut(*old) {
            *place = Some(new as f64);
        }
    }
    *names = order.iter().filter_map(|old| names.get(*old).cloned()).collect();
    for series in &mut table.series {
        let moved = series.points.iter().filter_map(|(x, y)| Some(((*places.get(*x as usize)?)?, *y)));
        series.points = moved.collect();
    }
    let which = if is_text { "largest" } else { "first" };
    table.notes.push(format!("the {most} {which} of {all} categories"));
}
