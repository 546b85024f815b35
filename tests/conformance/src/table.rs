//! Table of the results, with the differences below it.

use comfy_table::{ContentArrangement, Table, presets};

use crate::checks::Difference;

/// One line of the table.
pub(crate) struct Row {
    /// The revision.
    pub revision: &'static str,
    /// Side and era of the backend.
    pub what: String,
    /// Checks that passed direct, and all; `None` without a direct run.
    pub direct: Option<(usize, usize)>,
    /// Checks that passed through vmcp, and all.
    pub through: (usize, usize),
    /// Differences that fail the run.
    pub differences: Vec<Difference>,
    /// Number of expected differences, and their reasons.
    pub expected: (usize, Vec<&'static str>),
}

impl Row {
    /// Returns true if it fails the run.
    pub(crate) fn is_bad(&self) -> bool {
        !self.differences.is_empty()
    }
}

/// Returns the table as text, with the differences below it.
pub(crate) fn render(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["revision", "what", "direct", "through", "worse", "expected"]);
    for row in rows {
        let (worse, expected) = (row.differences.len().to_string(), row.expected.0.to_string());
        let score = |(passed, all)| format!("{passed}/{all}");
        let direct = row.direct.map_or_else(|| "–".to_owned(), score);
        table.add_row([row.revision, &row.what, &direct, &score(row.through), &worse, &expected]);
    }
    let mut text = table.to_string();
    let mut reasons: Vec<&str> = rows.iter().flat_map(|row| row.expected.1.iter().copied()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    if !reasons.is_empty() {
        text = format!("{text}\nexpected:\n  - {}", reasons.join("\n  - "));
    }
    for row in rows {
        for found in &row.differences {
            let status = found.status.map_or_else(String::new, |status| format!("{status:?} "));
            let place = format!("{} {}: {} / {}", row.revision, row.what, found.scenario, found.check);
            text = format!("{text}\n{place}\n    {status}{}", found.message);
        }
    }
    text
}
