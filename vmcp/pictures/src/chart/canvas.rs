//! [`Canvas`]: a chart as SVG, written shape by shape.

use std::fmt::Write as _;

use crate::font;

/// Color of titles and labels.
pub(super) const INK: &str = "#1f2933";
/// Color of names of axes and of notes.
pub(super) const PALE: &str = "#52606d";
/// Color of grid lines.
pub(super) const GRID: &str = "#e4e7eb";
/// Color of the zero line and of axes.
pub(super) const AXIS: &str = "#7b8794";
/// Colors of series in their order: Vega's `tableau10` and two more. Neighbors differ in lightness, too.
pub(super) const PALETTE: [&str; 12] = [
    "#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#eeca3b", "#9d755d", "#ff9da6",
    "#79706e", "#1f3d5c", "#a0cbe8",
];

/// Returns the color of a series.
pub(super) fn color(series: usize) -> &'static str {
    PALETTE.get(series % PALETTE.len()).copied().unwrap_or(INK)
}

/// Side of a text at which its place lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A text with its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Label<'a> {
    pub(super) text: &'a str,
    /// Place of the base line, in pixels.
    pub(super) at: (f64, f64),
    /// Size of the font in pixels.
    pub(super) size: f64,
    pub(super) anchor: Anchor,
    pub(super) color: &'a str,
    /// Degrees, clockwise, around the place.
    pub(super) turn: f64,
}

/// SVG of a fixed size. Coordinates are pixels from the upper left corner.
#[derive(Debug)]
pub(super) struct Canvas {
    text: String,
}

impl Canvas {
    /// Begins a white picture.
    pub(super) fn new(width: f64, height: f64) -> Canvas {
        let mut canvas = Canvas { text: String::new() };
        canvas.put(format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="{}, Verdana, sans-serif">"#,
            font::FAMILY
        ));
        canvas.rect((0.0, 0.0, width, height), "#ffffff", None);
        canvas
    }

    fn put(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(arguments);
    }

    /// Draws a rectangle `(x, y, width, height)`; `tip` is shown by viewers that have a pointer.
    pub(super) fn rect(&mut self, place: (f64, f64, f64, f64), fill: &str, tip: Option<&str>) {
        let (x, y, width, height) = place;
        self.put(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{fill}""#
        ));
        match tip {
            Some(tip) => self.put(format_args!("><title>{}</title></rect>", escaped(tip))),
            None => self.text.push_str("/>"),
        }
    }

    /// Draws a line of a width in pixels.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, width: f64) {
        self.put(format_args!(
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="{stroke}" stroke-width="{width}"/>"#,
            from.0, from.1, to.0, to.1
        ));
    }

    /// Draws a line through points.
    pub(super) fn polyline(&mut self, points: &[(f64, f64)], stroke: &str) {
        self.text.push_str(r#"<polyline fill="none" stroke-linejoin="round" stroke-width="2" stroke=""#);
        self.text.push_str(stroke);
        self.text.push_str(r#"" points=""#);
        for (x, y) in points {
            self.put(format_args!("{x:.1},{y:.1} "));
        }
        self.text.push_str(r#""/>"#);
    }

    /// Draws dots of one color as one path, which stays small with many dots.
    pub(super) fn dots(&mut self, points: &[(f64, f64)], fill: &str, diameter: f64, opacity: f64) {
        self.put(format_args!(
            r#"<path fill="none" stroke="{fill}" stroke-opacity="{opacity}" stroke-width="{diameter}" stroke-linecap="round" d=""#
        ));
        for (x, y) in points {
            self.put(format_args!("M{x:.1} {y:.1}h.01"));
        }
        self.text.push_str(r#""/>"#);
    }

    /// Draws a closed shape by the commands of a path.
    pub(super) fn shape(&mut self, path: &str, fill: &str) {
        self.put(format_args!(r##"<path d="{path}" fill="{fill}" stroke="#ffffff" stroke-width="1.5"/>"##));
    }

    /// Writes a text.
    pub(super) fn label(&mut self, label: Label<'_>) {
        let Label { text, at: (x, y), size, anchor, color, turn } = label;
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.put(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" font-size="{size}" fill="{color}" text-anchor="{anchor}""#
        ));
        if turn != 0.0 {
            self.put(format_args!(r#" transform="rotate({turn} {x:.1} {y:.1})""#));
        }
        self.put(format_args!(">{}</text>", escaped(text)));
    }

    /// Ends the picture.
    pub(super) fn finish(mut self) -> String {
        self.text.push_str("</svg>");
        self.text
    }
}

/// Returns a text as XML has it; characters that XML cannot have become `U+FFFD`.
fn escaped(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => written.push_str("&amp;"),
            '<' => written.push_str("&lt;"),
            '>' => written.push_str("&gt;"),
            '"' => written.push_str("&quot;"),
            '\t' | '\n' | '\r' => written.push(' '),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => written.push('\u{fffd}'),
            other => written.push(other),
        }
    }
    written
}
