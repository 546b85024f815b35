//! Column charts, bars and sparklines as SVG. Shapes have attributes and classes, because the
//! Content-Security-Policy refuses inline styles. A table beside each chart has its numbers.

use maud::{Markup, html};

use crate::text;

/// Height of a chart and length of a bar, in units of the drawing.
const EXTENT: f64 = 100.0;
/// Width of a column.
const COLUMN: usize = 8;
/// Width of a column with the gap after it.
const STEP: usize = 10;
/// Least height of a column that is not zero: one call in a thousand stays visible.
const LEAST: f64 = 1.0;

/// One day of a chart.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// The day.
    pub(crate) day: String,
    /// Height of the column.
    pub(crate) all: u64,
    /// Part of it in the color of failures.
    pub(crate) part: u64,
}

/// Draws columns, the oldest first; `part_name` says what the part in the color of failures means.
pub(crate) fn chart(name: &str, part_name: &str, columns: &[Column]) -> Markup {
    let Some(highest) = columns.iter().max_by_key(|column| column.all) else { return html! {} };
    let [first, last] =
        [columns.first(), columns.last()].map(|column| column.map_or("", |it| it.day.as_str()));
    let size = format!("0 0 {} {EXTENT}", columns.len() * STEP);
    html! {
        figure.chart {
            svg.chart role="img" aria-label=(format!("{name} by day, {first} to {last}")) viewBox=(size) preserveAspectRatio="none" {
                @for (number, column) in columns.iter().enumerate() {
                    g {
                        title { (column.day) ": " (column.all) @if column.part > 0 { ", " (column.part) " " (part_name) } }
                        @for (class, count) in [("all", column.all), ("part", column.part)] {
                            @let height = scaled(count, highest.all);
                            rect class=(class) x=(number * STEP) y=(format!("{:.1}", EXTENT - height)) width=(COLUMN) height=(format!("{height:.1}")) {}
                        }
                    }
                }
            }
            figcaption.hint {
                (first) " to " (last) ", at most " (highest.all) " on " (highest.day) ". The red part " (part_name) "."
            }
        }
    }
}

/// Draws the bar of a row; its numbers stand in the row.
pub(crate) fn bar(all: u64, part: u64, most: u64) -> Markup {
    html! {
        svg.bar aria-hidden="true" viewBox="0 0 100 10" preserveAspectRatio="none" {
            @for (class, count) in [("all", all), ("part", part)] {
                rect class=(class) width=(format!("{:.1}", scaled(count, most))) height="10" {}
            }
        }
    }
}

/// Draws a time from `begin` on within a `whole`, all in milliseconds.
pub(crate) fn span(begin: f64, took: f64, whole: f64) -> Markup {
    let part = |time: f64| if whole > 0.0 { (time / whole * EXTENT).clamp(0.0, EXTENT) } else { 0.0 };
    // A short span at the end stays in sight.
    let start = part(begin).min(EXTENT - LEAST);
    let width = part(took).clamp(LEAST, EXTENT - start);
    html! {
        svg.bar aria-hidden="true" viewBox="0 0 100 10" preserveAspectRatio="none" {
            rect.all x=(format!("{start:.1}")) width=(format!("{width:.1}")) height="10" {}
        }
    }
}

/// Draws latencies in milliseconds, the oldest first.
pub(crate) fn sparkline(latencies: &[f64]) -> Markup {
    let slowest = latencies.iter().copied().fold(0.0, f64::max);
    let label = format!("latest {} calls, slowest {}", latencies.len(), text::milliseconds(slowest));
    let size = format!("0 0 {} {EXTENT}", latencies.len() * STEP);
    html! {
        svg.spark role="img" aria-label=(label) viewBox=(size) preserveAspectRatio="none" {
            title { (label) }
            @for (number, latency) in latencies.iter().enumerate() {
                @let height = if slowest > 0.0 { (latency / slowest * EXTENT).clamp(LEAST, EXTENT) } else { LEAST };
                rect.all x=(number * STEP) y=(format!("{:.1}", EXTENT - height)) width=(COLUMN) height=(format!("{height:.1}")) {}
            }
        }
    }
}

/// Returns the length of a count in the drawing.
fn scaled(count: u64, most: u64) -> f64 {
    if count == 0 { 0.0 } else { (count as f64 / most.max(1) as f64 * EXTENT).clamp(LEAST, EXTENT) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_scaled_by_the_highest_and_named_for_readers() {
        let column = |day: &str, all, part| Column { day: day.to_owned(), all, part };
        let drawn =
            chart("Calls", "failed", &[column("2026-11-26", 4_000, 1), column("2026-11-27", 2_000, 0)]);
        let drawn = drawn.into_string();
        for part in [
            "aria-label=\"Calls by day, 2026-11-26 to 2026-11-27\" viewBox=\"0 0 20 100\"",
            "<rect class=\"all\" x=\"0\" y=\"0.0\" width=\"8\" height=\"100.0\">",
            "<rect class=\"part\" x=\"0\" y=\"99.0\" width=\"8\" height=\"1.0\">",
            "<rect class=\"all\" x=\"10\" y=\"50.0\" width=\"8\" height=\"50.0\">",
            "<title>2026-11-26: 4000, 1 failed</title>",
            "at most 4000 on 2026-11-26",
        ] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        assert_eq!(chart("Calls", "failed", &[]).into_string(), "");
    }

    #[test]
    fn a_span_has_its_place_and_stays_in_sight() {
        let drawn = |begin, took, whole| span(begin, took, whole).into_string();
        assert!(drawn(5.0, 10.0, 20.0).contains("x=\"25.0\" width=\"50.0\""));
        assert!(drawn(20.0, 0.0, 20.0).contains("x=\"99.0\" width=\"1.0\""));
        assert!(drawn(0.0, 0.0, 0.0).contains("x=\"0.0\" width=\"1.0\""));
    }

    #[test]
    fn a_sparkline_is_scaled_by_the_slowest_call() {
        let drawn = sparkline(&[20.0, 0.0, 40.0]).into_string();
        assert!(
            drawn.contains("aria-label=\"latest 3 calls, slowest 40 ms\" viewBox=\"0 0 30 100\""),
            "{drawn}"
        );
        assert!(drawn.contains("x=\"0\" y=\"50.0\" width=\"8\" height=\"50.0\""), "{drawn}");
        assert!(drawn.contains("x=\"10\" y=\"99.0\" width=\"8\" height=\"1.0\""), "{drawn}");
        assert!(sparkline(&[0.0]).into_string().contains("height=\"1.0\""));
    }

    #[test]
    fn a_bar_of_nothing_has_no_length() {
        let drawn = bar(0, 0, 0).into_string();
        assert!(drawn.contains("<rect class=\"all\" width=\"0.0\""), "{drawn}");
        assert!(bar(5, 5, 10).into_string().contains("<rect class=\"part\" width=\"50.0\""));
    }
}
