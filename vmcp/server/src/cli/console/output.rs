//! Results of commands, on standard output.

use std::io::{self, IsTerminal as _, Write as _};

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Row, Table, presets};
use serde::Serialize;

use super::failure::CommandFailure;
use super::notes::without_controls;

/// Format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum OutputFormat {
    /// Table or text, for people.
    #[value(alias = "text")]
    Table,
    /// JSON, for programs.
    Json,
    /// YAML, for programs and people.
    Yaml,
}

/// Writes a result, with a line end if it lacks one. On a terminal, control characters are removed: text of a
/// backend must not move the cursor.
pub(in crate::cli) fn result(text: &str) -> Result<(), CommandFailure> {
    let mut out = io::stdout().lock();
    let shown = if out.is_terminal() { without_controls(text) } else { text.to_owned() };
    let end: &[u8] = if shown.is_empty() || shown.ends_with('\n') { b"" } else { b"\n" };
    let written =
        out.write_all(shown.as_bytes()).and_then(|()| out.write_all(end)).and_then(|()| out.flush());
    written.map_err(|error| CommandFailure::of_pipe("cannot write the result", &error))
}

/// Writes a result in the given format; `human_text` makes the one for people.
pub(in crate::cli) fn print(
    format: OutputFormat,
    value: &impl Serialize,
    human_text: impl FnOnce() -> String,
) -> Result<(), CommandFailure> {
    match format {
        OutputFormat::Table => result(&human_text()),
        OutputFormat::Json => result(&serde_json::to_string_pretty(value)?),
        OutputFormat::Yaml => result(&serde_saphyr::to_string(value)?),
    }
}

/// Returns a table without lines, as wide as the terminal; longer cells are cut.
pub(in crate::cli) fn table<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    for row in rows {
        let mut row = Row::from(row);
        row.max_height(1);
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_a_line_a_row_and_no_spaces_at_the_end() {
        let rows = [["time_now".to_owned(), "The\ntime".to_owned()], ["x".to_owned(), String::new()]];
        let text = table(["NAME", "DESCRIPTION"], rows);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("NAME      DESCRIPTION"), "{text}");
        assert!(lines[1].starts_with("time_now  The"), "{text}");
        assert_eq!(lines[2], "x");
    }
}
