//! The horizontal axis: places to pixels, and labels that do not touch each other.

use super::dates;
use super::number::Ticks;
use super::table::{Places, Table};
use crate::font;

/// Size of the font of labels.
pub(super) const SIZE: f64 = 12.0;
/// Degrees by which long labels are turned.
pub(super) const TURN: f64 = -40.0;
/// Widest turned label, in units of the font's size; the rest is cut off.
const MAX_TURNED: f64 = 15.0;
/// Space between two labels.
const GAP: f64 = 10.0;
/// Width of a turned label along the axis.
const TURNED: f64 = SIZE * 1.5;

/// The horizontal axis.
#[derive(Debug)]
pub(super) struct Horizontal {
    /// Places at the left and the right end.
    pub(super) range: (f64, f64),
    /// Places with their texts.
    pub(super) labels: Vec<(f64, String)>,
    /// True if the labels are turned.
    pub(super) is_turned: bool,
    /// True if each label names a band, and not a place.
    pub(super) is_bands: bool,
}

impl Horizontal {
    /// Chooses range and labels for a width in pixels.
    pub(super) fn new(table: &Table, width: f64) -> Horizontal {
        let (least, most) = table.width();
        match &table.places {
            Places::Categories(names) => Horizontal::bands(names, width),
            Places::Numbers => Horizontal::numbers(least, most, width),
            Places::Dates => {
                let margin = if most > least { (most - least) * 0.02 } else { 43_200.0 };
                let range = (least - margin, most + margin);
                let labels = dates::ticks(range.0, range.1, (width / 90.0) as usize);
                Horizontal { range, labels, is_turned: false, is_bands: false }
            }
        }
    }

    /// Makes an axis of numbers.
    pub(super) fn numbers(least: f64, most: f64, width: f64) -> Horizontal {
        let ticks = Ticks::enclosing(least, most, ((width / 80.0) as usize).clamp(3, 12));
        let range = ticks.range();
        let labels = ticks.values.into_iter().zip(ticks.labels).collect();
        Horizontal { range, labels, is_turned: false, is_bands: false }
    }

    /// Makes an axis of categories: their names side by side, or else turned, cut and the k-th only.
    pub(super) fn bands(names: &[String], width: f64) -> Horizontal {
        let range = (-0.5, names.len() as f64 - 0.5);
        let band = width / names.len().max(1) as f64;
        let widest = names.iter().map(|name| font::width(name) * SIZE).fold(0.0, f64::max);
        // Numbers and dates say enough if some are left out; texts are turned first.
        let are_short =
            widest <= 80.0 && names.iter().all(|name| name.starts_with(|it: char| it.is_ascii_digit()));
        let is_turned = widest + GAP > band && !are_short;
        let needed = if is_turned { TURNED } else { widest + GAP };
        let every = (needed / band).ceil().max(1.0) as usize;
        let shown = names.iter().enumerate().step_by(every);
        let labels = shown.map(|(place, name)| {
            (place as f64, if is_turned { font::cut_middle(name, MAX_TURNED) } else { name.clone() })
        });
        Horizontal { range, labels: labels.collect(), is_turned, is_bands: true }
    }

    /// Returns the pixel of a place on an axis of a width.
    pub(super) fn pixel(&self, place: f64, left: f64, width: f64) -> f64 {
        let (first, last) = self.range;
        left + (place - first) / (last - first) * width
    }

    /// Height of the labels in pixels.
    pub(super) fn height(&self) -> f64 {
        if !self.is_turned {
            return SIZE + 8.0;
        }
        let widest = self.labels.iter().map(|(_, text)| font::width(text) * SIZE).fold(0.0, f64::max);
        widest * TURN.to_radians().sin().abs() + SIZE + 6.0
    }

    /// Pixels by which the first label, turned, stands out to the left of its place.
    pub(super) fn overhang(&self) -> f64 {
        match self.labels.first() {
            Some((_, text)) if self.is_turned => {
                font::width(text) * SIZE * TURN.to_radians().cos() + SIZE / 2.0
            }
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(names: &[&str], width: f64) -> (Vec<String>, bool) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let axis = Horizontal::bands(&names, width);
        (axis.labels.into_iter().map(|(_, text)| text).collect(), axis.is_turned)
    }

    #[test]
    fn labels_are_turned_or_left_out_before_they_touch() {
        assert_eq!(labels(&["a", "b"], 600.0), (vec!["a".to_owned(), "b".to_owned()], false));
        let long = "a rather long name of a category";
        let (shown, is_turned) = labels(&[long; 6], 600.0);
        assert!(is_turned && shown.len() == 6 && shown.iter().all(|text| text.contains('…')), "{shown:?}");
        let years: Vec<String> = (1900..2000).map(|year| year.to_string()).collect();
        let years: Vec<&str> = years.iter().map(String::as_str).collect();
        let (shown, is_turned) = labels(&years, 600.0);
        assert!(!is_turned && (10..=20).contains(&shown.len()), "{shown:?}");
        assert!(labels(&[long; 1000], 600.0).0.len() <= 40);
    }
}
