//! Pies: shares of a whole, with a list of names, values and percentages.

use std::f64::consts::TAU;
use std::fmt::Write as _;

use super::canvas::{Anchor, Canvas, INK, Label, PALE, color};
use super::frame;
use super::number::short;
use super::table::{Places, Row, Table};
use super::{Chart, ChartError, Drawn};
use crate::font;

/// Most slices; smaller shares are one slice together.
const MAX_SLICES: usize = 10;
/// Height of a row of the list.
const ROW: f64 = 24.0;
/// Size of the font of the list.
const SIZE: f64 = 13.0;

/// Draws a pie. Values of one name are added.
pub(super) fn draw(chart: &Chart, rows: Vec<Row>) -> Result<Drawn, ChartError> {
    let table = Table::new(rows, true)?;
    let Places::Categories(names) = &table.places else { return Err(ChartError::Empty) };
    let mut shares: Vec<(String, f64)> = names.iter().map(|name| (name.clone(), 0.0)).collect();
    for (place, value) in table.series.iter().flat_map(|series| &series.points) {
        if value.is_some_and(|value| value < 0.0) {
            return Err(ChartError::NegativeShare);
        }
        if let Some((_, sum)) = shares.get_mut(*place as usize) {
            *sum += value.unwrap_or_default();
        }
    }
    let total: f64 = shares.iter().map(|(_, value)| value).sum();
    if total <= 0.0 {
        return Err(ChartError::Empty);
    }
    let slices = slices(shares);
    let (width, height) = (f64::from(chart.width), f64::from(chart.height));
    let mut canvas = Canvas::new(width, height);
    let top = frame::title(&mut canvas, chart, width);
    let room = height - top - 24.0;
    let radius = (room / 2.0).min(width * 0.24).max(20.0);
    let center = (radius + 28.0, top + room / 2.0);
    let mut from = 0.0;
    for (number, (_, value)) in slices.iter().enumerate() {
        let to = from + value / total;
        canvas.shape(&slice(center, radius, from, to), color(number));
        from = to;
    }
    let left = center.0 + radius + 36.0;
    let row = ROW.min(room / slices.len().max(1) as f64);
    let first = center.1 - row * slices.len() as f64 / 2.0;
    for (number, (name, value)) in slices.iter().enumerate() {
        let y = first + row * number as f64;
        canvas.rect((left, y + 4.0, 12.0, 12.0), color(number), None);
        let share = format!("{:.1} %  ({})", value / total * 100.0, short(*value));
        let name = font::cut(name, ((width - left - 48.0) / SIZE - font::width(&share)).max(4.0));
        let at = |x: f64| (x, y + 15.0);
        canvas.label(Label {
            text: &name,
            at: at(left + 20.0),
            size: SIZE,
            anchor: Anchor::Start,
            color: INK,
            turn: 0.0,
        });
        canvas.label(Label {
            text: &share,
            at: at(width - 16.0),
            size: SIZE,
            anchor: Anchor::End,
            color: PALE,
            turn: 0.0,
        });
    }
    frame::notes(&mut canvas, &table.notes, width, height);
    Ok(Drawn { svg: canvas.finish(), notes: table.notes })
}

/// Sorts shares from the largest, and joins those beyond [`MAX_SLICES`].
fn slices(mut shares: Vec<(String, f64)>) -> Vec<(String, f64)> {
    shares.retain(|(_, value)| *value > 0.0);
    shares.sort_by(|one, other| other.1.total_cmp(&one.1));
    if shares.len() > MAX_SLICES {
        let rest = shares.split_off(MAX_SLICES - 1);
        let sum = rest.iter().map(|(_, value)| value).sum();
        shares.push((format!("{} others", rest.len()), sum));
    }
    shares
}

/// Returns the path of a slice between two shares of the circle, clockwise from the top.
fn slice((x, y): (f64, f64), radius: f64, from: f64, to: f64) -> String {
    let point = |share: f64| {
        let angle = share * TAU;
        (x + radius * angle.sin(), y - radius * angle.cos())
    };
    let mut path = String::new();
    if to - from > 0.9999 {
        // An arc cannot end where it begins.
        let _ = write!(path, "M{x:.2} {:.2}a{radius:.2} {radius:.2} 0 1 1 -.01 0z", y - radius);
        return path;
    }
    let (begin, end) = (point(from), point(to));
    let large = u8::from(to - from > 0.5);
    let _ = write!(
        path,
        "M{x:.2} {y:.2}L{:.2} {:.2}A{radius:.2} {radius:.2} 0 {large} 1 {:.2} {:.2}z",
        begin.0, begin.1, end.0, end.1
    );
    path
}
