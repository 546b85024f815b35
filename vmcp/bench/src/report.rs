//! The table of results, and the targets that its figures are checked against.
#![expect(clippy::print_stdout, reason = "printing the table is what a benchmark is for")]
#![expect(clippy::print_stderr, reason = "targets and notes are for people, apart from the table")]

use anyhow::{Result, ensure};
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};

use crate::samples::Samples;

/// Begins the line of a target that was not met.
const MISSED: &str = "MISSED";

/// Sections of the table, in the order in which they are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Section {
    FindTool,
    Search,
    Embedding,
    Start,
    Catalog,
    Memory,
    Calls,
    Code,
    Allocations,
    Instructions,
    Streaming,
    HalfSent,
    Hostile,
    Lists,
    Sessions,
    Storm,
}

/// Unit of the values in a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    Seconds,
    Bytes,
    /// A value divided by another.
    Ratio,
    /// A number of things.
    Count,
}

/// A row of the table; unknown cells stay empty.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    /// Measured operation.
    pub(crate) what: String,
    /// Number of repetitions.
    pub(crate) n: usize,
    /// Median and 99th percentile, formatted.
    pub(crate) p50: String,
    pub(crate) p99: String,
    /// Operations per second.
    pub(crate) rate: Option<f64>,
    /// Seconds of CPU that the process between client and backend spent on each operation.
    pub(crate) cpu: Option<f64>,
    /// Times that a thread of it went to sleep for each operation.
    pub(crate) sleeps: Option<f64>,
    /// Resident bytes of that process.
    pub(crate) memory: Option<f64>,
    /// Requests that reached the backend, and connections that were opened to it, for each operation.
    pub(crate) upstream: Option<(f64, f64)>,
    /// Peer of the comparison, and the compared figure.
    pub(crate) yardstick: String,
    /// Figure of the peer, formatted, and the ratio to it.
    pub(crate) compared: Option<(String, f64)>,
    /// Figure of the bare proxy of one thread a core, formatted, and the ratio to it.
    pub(crate) per_core: Option<(String, f64)>,
}

/// Collects rows, targets and notes.
pub(crate) struct Report {
    quick: bool,
    rows: Vec<(Section, Row)>,
    targets: Vec<String>,
}

impl Report {
    /// An empty report; `quick` asks for fewer repetitions.
    pub(crate) fn new(quick: bool) -> Report {
        Report { quick, rows: Vec::new(), targets: Vec::new() }
    }

    /// Returns the number of repetitions: `runs`, or a fifth of it when quick, but at least 3.
    pub(crate) fn runs(&self, runs: usize) -> usize {
        if self.quick { (runs / 5).max(3) } else { runs }
    }

    /// Adds a row with a measured operation and its peer; medians are compared.
    pub(crate) fn row(
        &mut self,
        section: Section,
        unit: Unit,
        (what, samples): (impl Into<String>, &Samples),
        (yardstick, of_yardstick): (impl Into<String>, &Samples),
    ) {
        let (p50, other) = (samples.p50(), of_yardstick.p50());
        let row = Row {
            what: what.into(),
            n: samples.len(),
            p50: format_value(p50, unit),
            p99: format_value(samples.p99(), unit),
            yardstick: yardstick.into(),
            compared: Some((format_value(other, unit), p50 / other)),
            ..Row::default()
        };
        self.add(section, row);
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, section: Section, row: Row) {
        self.rows.push((section, row));
    }

    /// Checks a median against its target.
    pub(crate) fn check_median(&mut self, what: &str, unit: Unit, samples: &Samples, at_most: f64) {
        self.check_target(what, unit, samples.p50(), at_most);
    }

    /// Checks a figure against its target.
    pub(crate) fn check_target(&mut self, what: &str, unit: Unit, figure: f64, at_most: f64) {
        let verdict = if figure <= at_most { "met" } else { MISSED };
        let (figure, at_most) = (format_value(figure, unit), format_value(at_most, unit));
        self.targets.push(format!("{verdict}: {what}: {figure}, promised {at_most}"));
    }

    /// Adds a note below the table, such as a figure that could not be measured.
    pub(crate) fn note(&mut self, what: &str) {
        self.targets.push(format!("note: {what}"));
    }

    /// Prints the table to standard output, and targets and notes to standard error. Missed targets are an
    /// error.
    pub(crate) fn print(mut self) -> Result<()> {
        self.rows.sort_by_key(|(section, _)| *section);
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN);
        let titles = [
            "what",
            "n",
            "p50",
            "p99",
            "per s",
            "CPU",
            "sleeps",
            "memory",
            "upstream",
            "compared with",
            "its",
            "ratio",
            "one thread a core",
            "ratio",
        ];
        table.set_header(titles);
        for (_, row) in self.rows {
            let (other, ratio) = row.compared.unzip();
            let (per_core, per_core_ratio) = row.per_core.unzip();
            table.add_row([
                row.what,
                row.n.to_string(),
                row.p50,
                row.p99,
                row.rate.map(significant).unwrap_or_default(),
                row.cpu.map(|cpu| format_value(cpu, Unit::Seconds)).unwrap_or_default(),
                row.sleeps.map(significant).unwrap_or_default(),
                row.memory.map(|memory| format_value(memory, Unit::Bytes)).unwrap_or_default(),
                row.upstream.map(|(requests, new)| format!("{requests:.2}, {new:.2}")).unwrap_or_default(),
                row.yardstick,
                other.unwrap_or_default(),
                ratio.map(significant).unwrap_or_default(),
                per_core.unwrap_or_default(),
                per_core_ratio.map(significant).unwrap_or_default(),
            ]);
        }
        for column in (1..9).chain(10..14) {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        println!("{table}");
        self.targets.iter().for_each(|target| eprintln!("{target}"));
        let missed = self.targets.iter().filter(|target| target.starts_with(MISSED)).count();
        ensure!(missed == 0, "targets missed: {missed}; they are listed above");
        Ok(())
    }
}

/// Returns a value with its unit, such as `1.62 ms`.
pub(crate) fn format_value(value: f64, unit: Unit) -> String {
    let units: &[(f64, &str)] = match unit {
        Unit::Seconds => &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")],
        Unit::Bytes => &[(1024.0 * 1024.0, "MiB"), (1024.0, "KiB")],
        Unit::Ratio => &[(1.0, "×")],
        Unit::Count => &[(1.0, "")],
    };
    let fitting = units.iter().find(|(size, _)| value.abs() >= *size).or(units.last());
    let text = |(size, name): &(f64, &str)| format!("{} {name}", significant(value / size));
    fitting.map(text).unwrap_or_default().trim_end().to_owned()
}

/// Returns a value with three significant digits.
fn significant(value: f64) -> String {
    let magnitude = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    format!("{value:.*}", (2.0 - magnitude).clamp(0.0, 4.0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_was_missed_is_an_error() {
        let mut report = Report::new(true);
        report.check_target("a call", Unit::Seconds, 0.9, 1.0);
        report.note("a row is missing");
        report.print().unwrap();
        for (figure, is_met) in [(1.0, true), (1.1, false), (f64::NAN, false)] {
            let mut report = Report::new(true);
            report.check_target("a call", Unit::Seconds, figure, 1.0);
            assert_eq!(report.print().is_ok(), is_met, "{figure}");
        }
    }
}
