//! The legend: names of series with their colors, in rows above the plot.

use super::canvas::{Anchor, Canvas, INK, Label, color};
use crate::font;

/// Height of a row.
const ROW: f64 = 20.0;
/// Size of the font.
const SIZE: f64 = 12.0;
/// Width of a mark with the space around it.
const MARK: f64 = 18.0;
/// Space behind a name.
const GAP: f64 = 16.0;
/// Widest name, in units of the font's size.
const MAX_NAME: f64 = 24.0;

/// Names at their places, from the left of the plot and the top of the legend.
#[derive(Debug, Default)]
pub(super) struct Legend {
    names: Vec<(f64, f64, String)>,
    /// Height of all rows; zero without names.
    pub(super) height: f64,
}

impl Legend {
    /// Lays out names in rows of a width; a single series needs no legend.
    pub(super) fn of<'a>(names: impl ExactSizeIterator<Item = &'a str>, width: f64) -> Legend {
        if names.len() < 2 {
            return Legend::default();
        }
        let (mut x, mut y) = (0.0, 0.0);
        let mut placed = Vec::with_capacity(names.len());
        for name in names {
            let name = font::cut(if name.is_empty() { "(none)" } else { name }, MAX_NAME);
            let needed = MARK + font::width(&name) * SIZE + GAP;
            if x > 0.0 && x + needed > width {
                (x, y) = (0.0, y + ROW);
            }
            placed.push((x, y, name));
            x += needed;
        }
        Legend { names: placed, height: y + ROW + 10.0 }
    }

    /// Draws the legend with its upper left corner at a place.
    pub(super) fn draw(&self, canvas: &mut Canvas, (left, top): (f64, f64)) {
        for (series, (x, y, name)) in self.names.iter().enumerate() {
            canvas.rect((left + x, top + y + 3.0, 11.0, 11.0), color(series), None);
            canvas.label(Label {
                text: name,
                at: (left + x + MARK, top + y + 13.0),
                size: SIZE,
                anchor: Anchor::Start,
                color: INK,
                turn: 0.0,
            });
        }
    }
}
