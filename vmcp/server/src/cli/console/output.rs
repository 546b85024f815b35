//! Results of commands, on standard output.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{ArgMatches, ValueEnum};
use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, Width, presets};
use console::Term;
use serde::Serialize;

use super::failure::{CommandFailure, Exit};
use super::notes::without_controls;
use super::paint::{self, Tone};
use super::wrap::wrapped;

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

impl OutputFormat {
    /// Returns the format that the arguments of a command name; the innermost subcommand counts.
    pub(in crate::cli) fn of_command(mut matches: &ArgMatches) -> OutputFormat {
        let mut format = OutputFormat::Table;
        loop {
            if let Ok(Some(found)) = matches.try_get_one::<OutputFormat>("output") {
                format = *found;
            }
            // `--json` of commands whose results are lines.
            if let Ok(Some(true)) = matches.try_get_one::<bool>("json") {
                format = OutputFormat::Json;
            }
            match matches.subcommand() {
                Some((_, below)) => matches = below,
                None => return format,
            }
        }
    }

    /// Returns the format that a command line names which cannot be parsed.
    pub(in crate::cli) fn of_words(words: &[OsString]) -> OutputFormat {
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let is_behind = |at: usize| {
            at.checked_sub(1)
                .and_then(|at| words.get(at))
                .is_some_and(|word| word == "-o" || word == "--output")
        };
        let format = words.iter().enumerate().find_map(|(at, word)| {
            let attached = ["--output=", "-o=", "-o"].iter().find_map(|option| word.strip_prefix(option));
            let value = if is_behind(at) { Some(&**word) } else { attached };
            OutputFormat::from_str(value?, true).ok()
        });
        format.unwrap_or(OutputFormat::Table)
    }
}

/// True once something was written to standard output.
static IS_WRITTEN: AtomicBool = AtomicBool::new(false);

/// Writes a result, with a line end if it lacks one. On a terminal, control characters are removed: text of a
/// backend must not move the cursor.
pub(in crate::cli) fn result(text: &str) -> Result<(), CommandFailure> {
    write(&harmless(text))
}

/// As [`result`], for text with painted parts, which are in color where the terminal takes it. On a terminal,
/// lines break between words.
pub(in crate::cli) fn painted(text: &str) -> Result<(), CommandFailure> {
    let text = harmless(text);
    let text = match Term::stdout().size_checked().filter(|_| io::stdout().is_terminal()) {
        Some((_, columns)) => wrapped(&text, columns.into()).into(),
        None => text,
    };
    write(&paint::render(&text, paint::on_stdout()))
}

/// Returns text with painted parts as [`painted`] writes it, with its lines as they are.
pub(in crate::cli) fn rendered(text: &str) -> String {
    paint::render(&harmless(text), paint::on_stdout())
}

fn harmless(text: &str) -> Cow<'_, str> {
    if io::stdout().is_terminal() { without_controls(text).into() } else { text.into() }
}

fn write(shown: &str) -> Result<(), CommandFailure> {
    if !shown.is_empty() {
        IS_WRITTEN.store(true, Ordering::Relaxed);
    }
    let mut out = io::stdout().lock();
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
        OutputFormat::Table => painted(&human_text()),
        OutputFormat::Json => result(&serde_json::to_string_pretty(value)?),
        OutputFormat::Yaml => result(&serde_saphyr::to_string(value)?),
    }
}

/// Runs a command that changes something. In a format for programs its failure is a result too, an object
/// with `error`, `remedy` and `exitCode`; the text for people is on standard error in every format.
pub(in crate::cli) fn with_failure(
    format: OutputFormat,
    run: impl FnOnce() -> Result<Exit, CommandFailure>,
) -> Result<Exit, CommandFailure> {
    let outcome = run();
    if let Err(failure) = &outcome
        && format != OutputFormat::Table
    {
        // The failure decides the exit code, also if nothing reads the result.
        let _ = print_for_programs(format, &failure.for_programs());
    }
    outcome
}

/// Writes the failure of a command in a format for programs: an object with `error`, `remedy` and `exitCode`,
/// as one line of JSON or a document of YAML. Writes nothing behind a result.
pub(in crate::cli) fn print_failure(format: OutputFormat, failure: &CommandFailure) {
    if IS_WRITTEN.load(Ordering::Relaxed) {
        return;
    }
    let value = failure.for_programs();
    // The failure decides the exit code, also if nothing reads the result.
    let _ = match format {
        OutputFormat::Table => Ok(()),
        OutputFormat::Json => result(&value.to_string()),
        OutputFormat::Yaml => print_for_programs(format, &value),
    };
}

/// Writes a result for programs; people read of it on standard error.
pub(in crate::cli) fn print_for_programs(
    format: OutputFormat,
    value: &impl Serialize,
) -> Result<(), CommandFailure> {
    print(format, value, String::new)
}

/// Fewest characters of a last column that are worth showing.
const MIN_LAST_WIDTH: u16 = 12;
/// Blanks between two columns.
const COLUMN_GAP: u16 = 2;

/// Returns a table without lines and with a painted header. On a terminal the last column is cut to its
/// width, or left out where hardly anything of it would fit; the other columns, which identify, are never
/// cut. Where they do not fit either, each row becomes a paragraph of its own.
pub(in crate::cli) fn table<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    toned_table(header, rows.into_iter().map(|row| (None, row)))
}

/// As [`table`], with rows painted in a tone.
pub(in crate::cli) fn toned_table<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: impl IntoIterator<Item = (Option<Tone>, [String; COLUMNS])>,
) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    // Cells show names and errors of backends, and a pipe may end at a terminal.
    let rows: Vec<_> =
        rows.into_iter().map(|(tone, row)| (tone, row.map(|cell| without_controls(&cell)))).collect();
    let width = table.width();
    if let Some(width) = width.map(usize::from).filter(|width| others_width(header, &rows) > *width) {
        return paragraphs(header, &rows, width);
    }
    let mut tones = vec![Some(Tone::Strong)];
    for (tone, row) in rows {
        tones.push(tone);
        let mut row = Row::from(row);
        row.max_height(1);
        table.add_row(row);
    }
    // Each row is one line.
    let lines = fit(table, width);
    let tones = tones.into_iter().chain(std::iter::repeat(None));
    let painted = lines.lines().zip(tones).map(|(line, tone)| match tone {
        Some(tone) => paint::paint(tone, line),
        None => line.to_owned(),
    });
    painted.collect::<Vec<_>>().join("\n")
}

/// A row of a table, with the tone in which it is painted.
type TonedRow<const COLUMNS: usize> = (Option<Tone>, [String; COLUMNS]);

/// Returns the characters that all columns but the last one take.
fn others_width<const COLUMNS: usize>(header: [&str; COLUMNS], rows: &[TonedRow<COLUMNS>]) -> usize {
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|(_, row)| row.get(at)).map(|cell| cell.chars().count());
        cells.chain(header.get(at).map(|name| name.chars().count())).max().unwrap_or_default()
    };
    (0..COLUMNS.saturating_sub(1)).map(|at| width(at) + usize::from(COLUMN_GAP)).sum()
}

/// Returns a paragraph for each row: its cells behind the names of their columns, in lines of `width`. A line
/// breaks between two cells; a cell that is longer than a line has one of its own.
fn paragraphs<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: &[TonedRow<COLUMNS>],
    width: usize,
) -> String {
    let mut lines = Vec::new();
    for (tone, row) in rows {
        let mut line = String::new();
        for (name, cell) in header.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
            let pair = format!("{name} {}", cell.lines().next().unwrap_or_default());
            let gap = usize::from(COLUMN_GAP);
            if !line.is_empty() && line.chars().count() + gap + pair.chars().count() > width {
                lines.push((*tone, std::mem::take(&mut line)));
                line.push_str("  ");
            } else if !line.is_empty() {
                line.push_str("  ");
            }
            line.push_str(&pair);
        }
        lines.push((*tone, line));
    }
    let painted = lines.into_iter().map(|(tone, line)| match tone {
        Some(tone) => paint::paint(tone, &line),
        None => line,
    });
    painted.collect::<Vec<_>>().join("\n")
}

fn fit(mut table: Table, width: Option<u16>) -> String {
    let widths = table.column_max_content_widths();
    let (last, others) = widths.split_last().map_or((0, &[][..]), |(last, others)| (*last, others));
    let taken = others.iter().fold(0u16, |sum, width| sum.saturating_add(width.saturating_add(COLUMN_GAP)));
    let left = width.map_or(u16::MAX, |width| width.saturating_sub(taken));
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, COLUMN_GAP));
        let too_wide = index + 1 == widths.len() && left < last;
        column.set_constraint(if !too_wide {
            ColumnConstraint::ContentWidth
        } else if left < MIN_LAST_WIDTH && last > MIN_LAST_WIDTH {
            ColumnConstraint::Hidden
        } else {
            ColumnConstraint::Absolute(Width::Fixed(left.max(MIN_LAST_WIDTH)))
        });
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_a_line_a_row_and_no_spaces_at_the_end() {
        let rows =
            [["time_now".to_owned(), "\u{1b}[2JThe\ntime".to_owned()], ["x".to_owned(), String::new()]];
        let text = paint::plain(&table(["NAME", "DESCRIPTION"], rows));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("NAME      DESCRIPTION"), "{text}");
        assert!(lines[1].starts_with("time_now  [2JThe"), "{text}");
        assert_eq!(lines[2], "x");
    }

    #[test]
    fn columns_that_do_not_fit_become_a_paragraph_for_each_row() {
        let header = ["SCORE", "TOOL", "COSINE", "FUSED", "DESCRIPTION"];
        let row =
            ["0.60", "atlassian_jira_create_remote_issue_link", "0.512 (#1)", "1.250", "Creates a link"];
        let rows = [(None, row.map(str::to_owned))];
        assert_eq!(others_width(header, &rows), 5 + 2 + 39 + 2 + 10 + 2 + 5 + 2);
        let text = paragraphs(header, &rows, 60);
        let expected = "SCORE 0.60  TOOL atlassian_jira_create_remote_issue_link\n  \
                        COSINE 0.512 (#1)  FUSED 1.250  DESCRIPTION Creates a link";
        assert_eq!(text, expected);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }

    #[test]
    fn a_narrow_terminal_cuts_the_last_column_only() {
        let name = "atlassian_jira_create_remote_issue_link";
        let narrow = |width| {
            let mut table = Table::new();
            table.load_style(presets::NOTHING).set_header(["NAME", "BACKEND", "DESCRIPTION"]);
            table.set_content_arrangement(ContentArrangement::Dynamic);
            let mut row =
                Row::from([name, "atlassian", "Create a remote link of an issue to somewhere else"]);
            row.max_height(1);
            table.add_row(row);
            fit(table, Some(width))
        };
        for width in [40, 60, 70, 80] {
            let text = narrow(width);
            assert!(text.contains(name) && text.contains("atlassian"), "{width}:\n{text}");
            assert_eq!(text.contains("Create"), width >= 70, "{width}:\n{text}");
            assert_eq!(text.lines().count(), 2, "{width}:\n{text}");
        }
        assert!(narrow(80).lines().all(|line| line.chars().count() <= 80), "{}", narrow(80));
    }
}
