//! Histograms: how many values lie in each of ranges of equal, round width.

use super::axes::Horizontal;
use super::canvas::color;
use super::frame::{Contents, Frame};
use super::number::{nice_step, short};
use super::table::{Row, number_of, range};
use super::{Chart, ChartError, Drawn};

/// Most ranges.
pub const MAX_BINS: usize = 100;

/// Draws the values of `x`; with several series, all together.
pub(super) fn draw(chart: &Chart, rows: Vec<Row>) -> Result<Drawn, ChartError> {
    let given = rows.len();
    let mut values = Vec::with_capacity(given);
    for (number, row) in rows.into_iter().enumerate() {
        values.extend(number_of(&row.x, "x", number)?);
    }
    if values.is_empty() {
        return Err(ChartError::Empty);
    }
    let mut notes = Vec::new();
    if values.len() < given {
        notes.push(format!("{} of {given} rows without x left out", given - values.len()));
    }
    let Bins { first, step, counts } = Bins::of(&values, chart.bins);
    let most = counts.iter().copied().max().unwrap_or_default();
    let end = first + step * counts.len() as f64;
    let contents = Contents {
        horizontal: &|width| {
            let axis = Horizontal::numbers(first, end, width);
            Horizontal {
                range: (first, end),
                labels: axis.labels.into_iter().filter(|(place, _)| (first..=end).contains(place)).collect(),
                ..axis
            }
        },
        range: (0.0, most as f64),
        names: Vec::new(),
        notes,
    };
    let named =
        Chart { y_label: chart.y_label.clone().or_else(|| Some("count".to_owned())), ..chart.clone() };
    let mut frame = Frame::new(&named, contents);
    let base = frame.y(0.0);
    for (place, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
        let from = first + step * place as f64;
        let (left, right) = (frame.x(from), frame.x(from + step));
        let top = frame.y(count as f64);
        let tip = format!("{} to {}: {count}", short(from), short(from + step));
        frame.canvas.rect((left + 0.5, top, (right - left - 1.0).max(0.5), base - top), color(0), Some(&tip));
    }
    Ok(frame.finish())
}

/// Ranges and the numbers of values in them.
#[derive(Debug, PartialEq)]
struct Bins {
    first: f64,
    step: f64,
    counts: Vec<usize>,
}

impl Bins {
    /// Chooses about as many ranges as the square root of the number of values, or `wanted`, in round steps.
    fn of(values: &[f64], wanted: Option<usize>) -> Bins {
        let (least, most) = range(values.iter().copied());
        let size = least.abs().max(most.abs());
        if most - least <= size * 1e-9 {
            let step = if size == 0.0 { 1.0 } else { nice_step(size * 0.1) };
            return Bins { first: least - step / 2.0, step, counts: vec![values.len()] };
        }
        let (first, step, count) = if let Some(count) = wanted {
            (least, most / count as f64 - least / count as f64, count)
        } else {
            let about = ((values.len() as f64).sqrt().ceil() as usize).clamp(5, 40) as f64;
            let step = nice_step(most / about - least / about);
            let first = (least / step).floor() * step;
            (first, step, (((most - first) / step).floor() as usize + 1).min(MAX_BINS))
        };
        let mut counts = vec![0; count];
        for value in values {
            // The largest value belongs to the last range.
            let place = (((value - first) / step).max(0.0) as usize).min(count - 1);
            if let Some(count) = counts.get_mut(place) {
                *count += 1;
            }
        }
        Bins { first, step, counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_one_range() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let bins = Bins::of(&values, None);
        assert_eq!((bins.first, bins.step, bins.counts), (0.0, 10.0, vec![10; 10]));
        let bins = Bins::of(&values, Some(3));
        assert_eq!((bins.counts.len(), bins.counts.iter().sum::<usize>()), (3, 100));
        for values in [&[7.0][..], &[0.0, 0.0], &[-1e100, 1e100], &[1e15, 1e15 + 0.5]] {
            let bins = Bins::of(values, None);
            assert_eq!(bins.counts.iter().sum::<usize>(), values.len(), "{bins:?}");
            assert!(bins.counts.len() <= MAX_BINS && bins.step > 0.0, "{bins:?}");
        }
    }
}
