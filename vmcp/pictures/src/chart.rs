//! Charts: rows to SVG. Pure decisions in layers: rows to [`table`], ranges to ticks, ticks to a frame with
//! axes, points to marks in it.
//!
//! ```
//! use vmcp_pictures::chart::{Cell, Chart, Kind, Row};
//!
//! let row = |x: &str, y: f64| Row { x: Cell::Text(x.to_owned()), y: Cell::Number(y), series: None };
//! let chart = Chart { title: Some("Sales".to_owned()), ..Chart::new(Kind::Bar) };
//! let drawn = chart.draw(vec![row("north", 12.0), row("south", 7.5)])?;
//! assert!(drawn.svg.starts_with("<svg "));
//! # Ok::<(), vmcp_pictures::chart::ChartError>(())
//! ```

mod axes;
mod bars;
mod canvas;
mod dates;
mod frame;
mod histogram;
mod legend;
mod number;
mod pie;
mod points;
mod table;
mod thin;

pub use histogram::MAX_BINS;
pub use table::{Cell, MAX_NUMBER, MAX_ROWS, MAX_SERIES, Row};

/// Kinds of charts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bars beside each other, one group a category.
    Bar,
    /// Lines, in the order of x.
    Line,
    /// Dots.
    Scatter,
    /// Numbers of values in ranges of equal width.
    Histogram,
    /// Shares of a whole.
    Pie,
}

impl Kind {
    /// Names of the kinds, as scripts write them.
    pub const NAMES: [&'static str; 5] = ["bar", "line", "scatter", "hist", "pie"];

    /// Returns the kind of a name.
    pub fn of_name(name: &str) -> Option<Kind> {
        Some(match name {
            "bar" => Kind::Bar,
            "line" => Kind::Line,
            "scatter" => Kind::Scatter,
            "hist" | "histogram" => Kind::Histogram,
            "pie" => Kind::Pie,
            _ => return None,
        })
    }
}

/// Sizes of a chart in pixels: fewest and most, of its width and of its height.
pub const SIDES: std::ops::RangeInclusive<u32> = 200..=1600;

/// A chart, without its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// The kind.
    pub kind: Kind,
    /// Text above it.
    pub title: Option<String>,
    /// Name of the horizontal axis.
    pub x_label: Option<String>,
    /// Name of the vertical axis.
    pub y_label: Option<String>,
    /// Ranges of a histogram, at most [`MAX_BINS`]; chosen by the values without it.
    pub bins: Option<usize>,
    /// Width in pixels, of [`SIDES`].
    pub width: u32,
    /// Height in pixels, of [`SIDES`].
    pub height: u32,
}

/// A chart as SVG.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawn {
    /// The text.
    pub svg: String,
    /// Remarks on rows that are not drawn as they were given; the chart shows them, too.
    pub notes: Vec<String>,
}

/// Errors of a chart; the text names the argument of `plot`, and is for the author of the script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChartError {
    /// No row with a value.
    #[error("rows: no row has a value for x and y, so there is nothing to draw")]
    Empty,
    /// Too many rows.
    #[error("rows: {actual} rows; the limit is {MAX_ROWS}: aggregate them first")]
    Rows {
        /// Their number.
        actual: usize,
    },
    /// Too many series.
    #[error("series: more than {MAX_SERIES} series, which is the limit; keep the largest ones")]
    Series,
    /// No number where one must stand.
    #[error("{argument}: row {row} has {shown:?}, which is no number")]
    NotNumber {
        /// The argument.
        argument: &'static str,
        /// The row, from 0.
        row: usize,
        /// Its value.
        shown: String,
    },
    /// A number beyond [`MAX_NUMBER`].
    #[error("{argument}: row {row} has a number beyond {MAX_NUMBER:e}, which is the limit")]
    TooLarge {
        /// The argument.
        argument: &'static str,
        /// The row, from 0.
        row: usize,
    },
    /// A negative share.
    #[error("y: a pie has no negative shares; use a bar chart")]
    NegativeShare,
    /// A size out of [`SIDES`].
    #[error("{argument} must be from {} to {} pixels", SIDES.start(), SIDES.end())]
    Side {
        /// The argument.
        argument: &'static str,
    },
    /// A number of ranges out of 1 to [`MAX_BINS`].
    #[error("bins must be from 1 to {MAX_BINS}")]
    Bins,
}

impl Chart {
    /// Makes a chart of 800 x 480 pixels without texts.
    pub fn new(kind: Kind) -> Chart {
        Chart { kind, title: None, x_label: None, y_label: None, bins: None, width: 800, height: 480 }
    }

    /// Draws rows.
    pub fn draw(&self, rows: Vec<Row>) -> Result<Drawn, ChartError> {
        for (argument, side) in [("width", self.width), ("height", self.height)] {
            if !SIDES.contains(&side) {
                return Err(ChartError::Side { argument });
            }
        }
        if self.bins.is_some_and(|bins| !(1..=MAX_BINS).contains(&bins)) {
            return Err(ChartError::Bins);
        }
        if rows.len() > MAX_ROWS {
            return Err(ChartError::Rows { actual: rows.len() });
        }
        match self.kind {
            Kind::Bar => bars::draw(self, rows),
            Kind::Line | Kind::Scatter => points::draw(self, rows),
            Kind::Histogram => histogram::draw(self, rows),
            Kind::Pie => pie::draw(self, rows),
        }
    }
}

#[cfg(test)]
mod tests;
