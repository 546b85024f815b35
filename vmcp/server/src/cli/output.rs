//! The one place that writes: results to standard output, remarks to standard error.

use std::io::{self, IsTerminal as _, Write as _};

use comfy_table::{ContentArrangement, Row, Table, presets};
use serde::Serialize;

use super::failure::Failure;
use super::options::Format;

/// Writes a result, with a line end if it lacks one. On a terminal, nothing that a backend sent may move the cursor.
pub(super) fn result(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let shown = if out.is_terminal() { without_controls(text) } else { text.to_owned() };
    let end: &[u8] = if shown.is_empty() || shown.ends_with('\n') { b"" } else { b"\n" };
    let written =
        out.write_all(shown.as_bytes()).and_then(|()| out.write_all(end)).and_then(|()| out.flush());
    written.map_err(|error| Failure::of_pipe("cannot write the result", &error))
}

/// Writes a result in the wanted form; `people` makes the one that people read.
pub(super) fn print(
    format: Format,
    value: &impl Serialize,
    people: impl FnOnce() -> String,
) -> Result<(), Failure> {
    match format {
        Format::Table => result(&people()),
        Format::Json => result(&serde_json::to_string_pretty(value)?),
        Format::Yaml => result(&serde_saphyr::to_string(value)?),
    }
}

/// Writes a remark for people. Nobody is told when that fails: there is nowhere left to tell it.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", without_controls(text));
}

/// Whether remarks are read by a person.
pub(super) fn people_read_notes() -> bool {
    io::stderr().is_terminal()
}

/// A table without lines that fits the terminal: a cell that is too long is cut.
pub(super) fn table<const COLUMNS: usize>(
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

fn without_controls(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
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

    #[test]
    fn escape_sequences_do_not_reach_a_terminal() {
        assert_eq!(without_controls("a\u{1b}[2Jb\u{7}\n\tc"), "a[2Jb\n\tc");
    }
}
