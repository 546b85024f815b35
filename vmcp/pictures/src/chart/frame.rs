//! [`Frame`]: title, legend, axes and grid around the plot of a chart.

use super::axes::{Horizontal, SIZE, TURN};
use super::canvas::{AXIS, Anchor, Canvas, GRID, INK, Label, PALE};
use super::legend::Legend;
use super::number::Ticks;
use super::{Chart, Drawn};
use crate::font;

/// Size of the font of the title.
const TITLE: f64 = 17.0;
/// Size of the font of notes.
const NOTE: f64 = 10.5;
/// Space around a chart.
const MARGIN: f64 = 16.0;

/// The plot in its frame.
#[derive(Debug)]
pub(super) struct Frame {
    /// The picture so far.
    pub(super) canvas: Canvas,
    /// The horizontal axis.
    pub(super) horizontal: Horizontal,
    /// Left, top, width and height of the plot in pixels.
    pub(super) plot: (f64, f64, f64, f64),
    /// Values at the bottom and the top of the plot.
    range: (f64, f64),
    notes: Vec<String>,
    height: f64,
    width: f64,
}

/// Contents of a frame.
pub(super) struct Contents<'a> {
    /// Makes the horizontal axis for a width in pixels.
    pub(super) horizontal: &'a dyn Fn(f64) -> Horizontal,
    /// Least and largest value.
    pub(super) range: (f64, f64),
    /// Names of the series.
    pub(super) names: Vec<&'a str>,
    /// Remarks below the plot.
    pub(super) notes: Vec<String>,
}

impl Frame {
    /// Lays out and draws everything but the marks.
    pub(super) fn new(chart: &Chart, contents: Contents<'_>) -> Frame {
        let (width, height) = (f64::from(chart.width), f64::from(chart.height));
        let Contents { horizontal, range, names, notes } = contents;
        let mut canvas = Canvas::new(width, height);
        let mut top = title(&mut canvas, chart, width);
        let ticks = Ticks::enclosing(range.0, range.1, ((height / 70.0) as usize).clamp(3, 8));
        let widest = ticks.labels.iter().map(|text| font::width(text) * SIZE).fold(0.0, f64::max);
        let mut left = MARGIN + widest + 8.0;
        if chart.y_label.is_some() {
            left += 20.0;
        }
        let mut inner = width - left - MARGIN;
        let mut axis = horizontal(inner);
        // Turned labels of the first bands need room on the left.
        let lacking =
            axis.overhang() - left - axis.pixel(axis.labels.first().map_or(0.0, |it| it.0), 0.0, inner);
        if lacking > 0.0 {
            let more = lacking.min(width * 0.2);
            (left, inner) = (left + more, inner - more);
            axis = horizontal(inner);
        }
        let legend = Legend::of(names.into_iter(), inner);
        legend.draw(&mut canvas, (left, top));
        top += legend.height.max(4.0);
        let mut below = axis.height() + MARGIN * 0.6;
        below += if chart.x_label.is_some() { 18.0 } else { 0.0 };
        below += if notes.is_empty() { 0.0 } else { 16.0 };
        let plot = (left, top, inner, (height - top - below).max(20.0));
        let range = ticks.range();
        let mut frame = Frame { canvas, horizontal: axis, plot, range, notes, height, width };
        frame.draw_axes(chart, &ticks);
        frame
    }

    fn draw_axes(&mut self, chart: &Chart, ticks: &Ticks) {
        let (left, top, width, height) = self.plot;
        let bottom = top + height;
        for (value, text) in ticks.values.iter().zip(&ticks.labels) {
            let y = self.y(*value);
            self.canvas.line((left, y), (left + width, y), GRID, 1.0);
            self.write(text, (left - 7.0, y + 4.0), Anchor::End, INK, 0.0);
        }
        for (place, text) in std::mem::take(&mut self.horizontal.labels) {
            let x = self.x(place);
            if !self.horizontal.is_bands {
                self.canvas.line((x, bottom), (x, bottom + 5.0), AXIS, 1.0);
            }
            if self.horizontal.is_turned {
                self.write(&text, (x + 4.0, bottom + 14.0), Anchor::End, INK, TURN);
            } else {
                // The outer labels stay inside of the picture.
                let half = font::width(&text) * SIZE / 2.0;
                let x = x.clamp(half + 2.0, (self.width - half - 2.0).max(half + 2.0));
                self.write(&text, (x, bottom + 18.0), Anchor::Middle, INK, 0.0);
            }
        }
        let base = if self.range.0 <= 0.0 && self.range.1 >= 0.0 { self.y(0.0) } else { bottom };
        self.canvas.line((left, base), (left + width, base), AXIS, 1.2);
        let center = left + width / 2.0;
        if let Some(name) = &chart.x_label {
            let y = self.height - MARGIN * 0.6 - if self.notes.is_empty() { 0.0 } else { 16.0 };
            let name = font::cut(name, width / SIZE);
            self.write(&name, (center, y), Anchor::Middle, PALE, 0.0);
        }
        if let Some(name) = &chart.y_label {
            let name = font::cut(name, height / SIZE);
            self.write(&name, (MARGIN + 6.0, top + height / 2.0), Anchor::Middle, PALE, -90.0);
        }
    }

    fn write(&mut self, text: &str, at: (f64, f64), anchor: Anchor, color: &str, turn: f64) {
        self.canvas.label(Label { text, at, size: SIZE, anchor, color, turn });
    }

    /// Returns the pixel of a place on the horizontal axis.
    pub(super) fn x(&self, place: f64) -> f64 {
        self.horizontal.pixel(place, self.plot.0, self.plot.2)
    }

    /// Returns the pixel of a value.
    pub(super) fn y(&self, value: f64) -> f64 {
        let (least, most) = self.range;
        self.plot.1 + self.plot.3 * (1.0 - (value - least) / (most - least))
    }

    /// Ends the chart with its remarks.
    pub(super) fn finish(mut self) -> Drawn {
        notes(&mut self.canvas, &self.notes, self.width, self.height);
        Drawn { svg: self.canvas.finish(), notes: self.notes }
    }
}

/// Draws the title; returns the height that it takes.
pub(super) fn title(canvas: &mut Canvas, chart: &Chart, width: f64) -> f64 {
    let Some(title) = &chart.title else { return MARGIN };
    let text = font::cut(title, (width - 2.0 * MARGIN) / TITLE);
    let at = (MARGIN, MARGIN + TITLE * 0.9);
    canvas.label(Label { text: &text, at, size: TITLE, anchor: Anchor::Start, color: INK, turn: 0.0 });
    MARGIN + TITLE + 12.0
}

/// Draws remarks in the lower right corner.
pub(super) fn notes(canvas: &mut Canvas, notes: &[String], width: f64, height: f64) {
    if notes.is_empty() {
        return;
    }
    let text = font::cut(&notes.join(" · "), (width - 2.0 * MARGIN) / NOTE);
    let at = (width - MARGIN, height - MARGIN * 0.5);
    canvas.label(Label { text: &text, at, size: NOTE, anchor: Anchor::End, color: PALE, turn: 0.0 });
}
