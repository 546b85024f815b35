//! The one table, and what is promised of its figures.
#![expect(clippy::print_stdout, reason = "printing the table is what a benchmark is for")]
#![expect(clippy::print_stderr, reason = "targets are for whoever reads along")]

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};

use crate::samples::Samples;

/// Parts of the table, in the order in which they are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    FindTool,
    Search,
    Embedding,
    Start,
    Catalog,
    Memory,
}

/// What the values of a row are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    Seconds,
    Bytes,
}

struct Row {
    part: Part,
    what: String,
    unit: Unit,
    samples: Samples,
    yardstick: String,
    yardstick_p50: f64,
}

/// Collects rows, and promises.
pub(crate) struct Report {
    quick: bool,
    rows: Vec<Row>,
    targets: Vec<String>,
}

impl Report {
    /// An empty one; `quick` for fewer repetitions.
    pub(crate) fn new(quick: bool) -> Report {
        Report { quick, rows: Vec::new(), targets: Vec::new() }
    }

    /// How often to repeat what is worth `runs` repetitions.
    pub(crate) fn runs(&self, runs: usize) -> usize {
        if self.quick { (runs / 5).max(3) } else { runs }
    }

    /// Adds a row: what was measured, and what it is compared with.
    pub(crate) fn row(
        &mut self,
        part: Part,
        unit: Unit,
        (what, samples): (impl Into<String>, &Samples),
        (yardstick, of_yardstick): (impl Into<String>, &Samples),
    ) {
        self.rows.push(Row {
            part,
            what: what.into(),
            unit,
            samples: samples.clone(),
            yardstick: yardstick.into(),
            yardstick_p50: of_yardstick.p50(),
        });
    }

    /// Holds a median against what was promised.
    pub(crate) fn target(&mut self, what: &str, unit: Unit, samples: &Samples, at_most: f64) {
        let median = samples.p50();
        let verdict = if median <= at_most { "met" } else { "MISSED" };
        self.targets.push(format!(
            "{verdict}: {what}: {}, promised {}",
            show(median, unit),
            show(at_most, unit)
        ));
    }

    /// Prints all of it.
    pub(crate) fn print(mut self) {
        self.rows.sort_by_key(|row| row.part);
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN);
        table.set_header(["what", "n", "p50", "p99", "compared with", "its p50", "ratio"]);
        for row in &self.rows {
            let (p50, other) = (row.samples.p50(), row.yardstick_p50);
            table.add_row([
                row.what.clone(),
                row.samples.len().to_string(),
                show(p50, row.unit),
                show(row.samples.p99(), row.unit),
                row.yardstick.clone(),
                show(other, row.unit),
                significant(p50 / other),
            ]);
        }
        for column in [1, 2, 3, 5, 6] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        println!("{table}");
        self.targets.iter().for_each(|target| eprintln!("{target}"));
    }
}

fn show(value: f64, unit: Unit) -> String {
    let units: &[(f64, &str)] = match unit {
        Unit::Seconds => &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")],
        Unit::Bytes => &[(1024.0 * 1024.0, "MiB"), (1024.0, "KiB")],
    };
    let fitting = units.iter().find(|(size, _)| value.abs() >= *size).or(units.last());
    fitting.map_or_else(String::new, |(size, name)| format!("{} {name}", significant(value / size)))
}

/// Three significant digits.
fn significant(value: f64) -> String {
    let magnitude = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    format!("{value:.*}", (2.0 - magnitude).clamp(0.0, 4.0) as usize)
}
