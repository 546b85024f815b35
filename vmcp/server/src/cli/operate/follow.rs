//! `vmcp logs` and `vmcp calls`: the latest lines and calls of the running server, and those to come.

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cli::completions::candidates;
use crate::cli::connection::{self, Connection, ServerOptions};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::console::paint::{Tone, paint};
use crate::cli::options::GlobalOptions;
use vmcp_config::sanitize;
use vmcp_engine::telemetry::recent::{RecentCall, RecentLine};

/// Interval at which a follower asks for more.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Characters of a time that are shown: hours, minutes, seconds and milliseconds.
const CLOCK: std::ops::Range<usize> = 11..23;
/// Characters of the date of a time.
const DATE: std::ops::RangeTo<usize> = ..10;

/// Selection of entries.
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    /// Only those of this backend
    #[arg(add = ArgValueCandidates::new(candidates::backends))]
    backend: Option<String>,
    /// Go on with new ones until interrupted
    #[arg(short, long)]
    follow: bool,
    /// Show at most this many of those that are there
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    lines: usize,
    /// Write one JSON object a line: `-o json` in short
    #[arg(long)]
    json: bool,
    /// Format of the entries: text, one JSON object a line, or one YAML document each
    #[arg(short, long, value_name = "FORMAT", default_value = "table", conflicts_with = "json")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// Entries of the server behind a number.
#[derive(Deserialize)]
struct Batch<T> {
    next: u64,
    entries: Vec<T>,
}

/// Runs `vmcp logs`.
pub(in crate::cli) fn logs(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    show::<RecentLine>(arguments, global, "admin/logs", log_line)
}

/// Returns a log line for a person.
pub(super) fn log_line(line: &RecentLine) -> String {
    let RecentLine { at, level, backend, text } = line;
    let backend = backend.as_deref().map(|name| format!("{name}: ")).unwrap_or_default();
    let level = match level.as_str() {
        "ERROR" => paint(Tone::Bad, "ERROR"),
        "WARN" => paint(Tone::Warning, "WARN "),
        level => format!("{level:5}"),
    };
    format!("{} {level} {backend}{text}", clock(at))
}

/// Runs `vmcp calls`.
pub(in crate::cli) fn calls(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    show::<RecentCall>(arguments, global, "admin/calls", call_line)
}

/// Returns a call in a line for a person; it begins with the number that `vmcp trace` takes. A call of an
/// earlier process, which has no number, is shown with its date.
pub(super) fn call_line(call: &RecentCall) -> String {
    let RecentCall { id, at, via, method, backend, item, outcome, took_ms, bytes_in, bytes_out } = call;
    let date = if id.is_none() { at.get(DATE).map(|date| format!("{date} ")) } else { None };
    let date = date.unwrap_or_default();
    let id = id.map_or_else(|| "-".to_owned(), |id| id.to_string());
    // An own tool is shown as lists name it.
    let via = via.as_deref().map(|name| name.replace('.', "_"));
    // A client's text: a line end in a URI would make a line that looks like another call.
    let item = sanitize::text(item.as_deref().or(via.as_deref()).unwrap_or(method));
    let backend = backend.as_deref().unwrap_or("-");
    format!(
        "{id:>5} {date}{} {outcome:10} {took_ms:8.1} ms {bytes_in:7} B in {bytes_out:8} B out  {backend}  {item}",
        clock(at)
    )
}

/// Returns the time of day of an RFC 3339 time.
pub(super) fn clock(at: &str) -> &str {
    at.get(CLOCK).unwrap_or(at)
}

fn show<T: DeserializeOwned + serde::Serialize>(
    arguments: Arguments,
    global: &GlobalOptions,
    path: &str,
    human: impl Fn(&T) -> String,
) -> Result<Exit, CommandFailure> {
    let Arguments { backend, follow, lines, json, output: format, server_options } = arguments;
    let format = if json { OutputFormat::Json } else { format };
    let filter = backend.map(|name| format!("&backend={name}")).unwrap_or_default();
    connection::with_server(global, &server_options, async |connection: &Connection| {
        let mut after = 0;
        loop {
            let batch: Batch<T> = connection.admin(&format!("{path}?after={after}{filter}")).await?;
            let skip = if after == 0 { batch.entries.len().saturating_sub(lines) } else { 0 };
            for entry in batch.entries.iter().skip(skip) {
                match format {
                    OutputFormat::Table => output::painted(&human(entry))?,
                    OutputFormat::Json => output::result(&serde_json::to_string(entry)?)?,
                    OutputFormat::Yaml => {
                        output::result(&format!("---\n{}", serde_saphyr::to_string(entry)?))?;
                    }
                }
            }
            // The first number may be 0 again and again: nothing has happened yet.
            after = batch.next;
            if !follow {
                return Ok(if batch.entries.is_empty() { Exit::NothingFound } else { Exit::Done });
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_of_an_earlier_process_is_shown_with_its_date() {
        let call = |id| RecentCall {
            id,
            at: "2026-11-26T08:00:00.123Z".to_owned(),
            via: None,
            method: "tools/call".to_owned(),
            backend: Some("time".to_owned()),
            item: Some("now".to_owned()),
            outcome: "ok".to_owned(),
            took_ms: 1.5,
            bytes_in: 2,
            bytes_out: 3,
        };
        let line = call_line(&call(None));
        assert!(line.starts_with("    - 2026-11-26 08:00:00.123 ok"), "{line}");
        let line = call_line(&call(Some(7)));
        assert!(line.starts_with("    7 08:00:00.123 ok"), "{line}");
        let forged = Some("file:///a\n    8 09:00:00.000 ok\u{1b}[2J".to_owned());
        let line = call_line(&RecentCall { item: forged, ..call(Some(7)) });
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(line.ends_with("file:///a 8 09:00:00.000 ok[2J"), "{line}");
    }
}
