//! `vmcp top`: a table of backends and their latest calls, which refreshes in place on a terminal.

mod figures;
mod screen;

use std::time::{Duration, SystemTime};

use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use vmcp_config::status::{BackendState, BackendStatus, BreakerPosition, StatusReport};

use self::figures::{CallFigures, figures};
use self::screen::Screen;
use super::follow::call_line;
use crate::cli::connection::{self, Connection, ServerOptions, duration};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::console::paint::{Tone, paint};
use crate::cli::options::GlobalOptions;
use vmcp_engine::telemetry::recent::RecentCall;

/// Time before now whose calls are counted.
const WINDOW: Duration = Duration::from_mins(5);
/// Latest calls below the table.
const SHOWN_CALLS: usize = 12;
/// Shortest interval: each refresh asks the server twice.
const MIN_INTERVAL: Duration = Duration::from_millis(200);

/// Show backends and calls of the running server, refreshed in place
#[derive(Debug, Args)]
#[command(after_help = "\
Figures are of the last five minutes, as far as the latest 1000 calls reach back. Ctrl-C ends it.
With --once, or into a pipe, the table is printed once.")]
pub(in crate::cli) struct Arguments {
    /// Print the table once
    #[arg(long)]
    once: bool,
    /// Time between two refreshes
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    interval: Duration,
    /// Format of the result; other formats than the table are printed once
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// Entries of `/admin/calls`.
#[derive(Deserialize)]
struct Calls {
    entries: Vec<RecentCall>,
}

/// State of the server at one moment.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Overview {
    version: String,
    uptime_seconds: u64,
    connections: u64,
    tools: usize,
    all: CallFigures,
    backends: Vec<BackendRow>,
    calls: Vec<RecentCall>,
}

/// A backend and the figures of its calls.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BackendRow {
    name: String,
    state: BackendState,
    breaker: BreakerPosition,
    sessions: usize,
    last_error: Option<String>,
    figures: CallFigures,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: &Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { once, interval, output: format, server_options } = arguments;
    connection::with_server(global, server_options, async |connection| {
        let screen = (!once && *format == OutputFormat::Table).then(Screen::open).flatten();
        let Some(mut screen) = screen else {
            let overview = overview(connection).await?;
            output::print(*format, &overview, || human_text(&overview))?;
            return Ok(Exit::Done);
        };
        // From here on, an interrupt must bring the terminal back.
        let mut interrupt = signal(SignalKind::interrupt())?;
        loop {
            let overview = tokio::select! {
                overview = overview(connection) => overview?,
                _ = interrupt.recv() => return Ok(Exit::Done),
            };
            screen.show(&output::rendered(&human_text(&overview)))?;
            tokio::select! {
                () = tokio::time::sleep((*interval).max(MIN_INTERVAL)) => {}
                _ = interrupt.recv() => return Ok(Exit::Done),
            }
        }
    })
}

async fn overview(connection: &Connection) -> Result<Overview, CommandFailure> {
    let status = connection.status().await?;
    let calls: Calls = connection.admin("admin/calls").await?;
    Ok(Overview::new(status, calls.entries, SystemTime::now()))
}

impl Overview {
    fn new(status: StatusReport, calls: Vec<RecentCall>, now: SystemTime) -> Overview {
        let StatusReport { version, uptime_seconds, connections, tools, backends, .. } = status;
        let of = |wanted: &dyn Fn(&RecentCall) -> bool| figures(&calls, now, WINDOW, wanted);
        let row = |backend: BackendStatus| {
            let figures = of(&|call| call.backend.as_ref() == Some(&backend.name));
            let BackendStatus { name, state, breaker, sessions, last_error, .. } = backend;
            BackendRow { name, state, breaker, sessions, last_error, figures }
        };
        let mut rows: Vec<BackendRow> = backends.into_iter().map(row).collect();
        // The busiest first; of equals, by name.
        rows.sort_by(|one, other| {
            other.figures.calls.cmp(&one.figures.calls).then_with(|| one.name.cmp(&other.name))
        });
        let all = of(&|_| true);
        let first = calls.len().saturating_sub(SHOWN_CALLS);
        let calls = calls.into_iter().skip(first).rev().collect();
        Overview { version, uptime_seconds, connections, tools, all, backends: rows, calls }
    }
}

fn human_text(overview: &Overview) -> String {
    let Overview { version, uptime_seconds, connections, tools, all, backends, calls } = overview;
    let uptime = humantime::format_duration(Duration::from_secs(*uptime_seconds));
    let head = format!(
        "vmcp {version}  up {uptime}  {tools} tools  {connections} connections  {:.1} calls/min  {} failed",
        all.per_minute, all.failed
    );
    let header = ["BACKEND", "STATE", "CALLS/MIN", "FAILED", "P50", "P99", "SESSIONS", "LAST ERROR"];
    let mut parts = vec![paint(Tone::Strong, &head), output::toned_table(header, backends.iter().map(row))];
    if !calls.is_empty() {
        let lines: Vec<_> = calls.iter().map(call_line).collect();
        parts.push(format!("LATEST CALLS\n{}", lines.join("\n")));
    }
    parts.join("\n\n")
}

fn row(backend: &BackendRow) -> (Option<Tone>, [String; 8]) {
    let BackendRow { name, state, breaker, sessions, last_error, figures } = backend;
    let (word, tone) = match (state, breaker) {
        (_, BreakerPosition::Open) => ("breaker open", Some(Tone::Bad)),
        (BackendState::Failed, _) => ("failed", Some(Tone::Bad)),
        (BackendState::Connecting, _) => ("connecting", Some(Tone::Warning)),
        (BackendState::Configured, _) => ("idle", None),
        (BackendState::Connected, _) => ("connected", None),
    };
    let time = |milliseconds: Option<f64>| {
        milliseconds.map_or_else(|| "-".to_owned(), |milliseconds| format!("{milliseconds:.1} ms"))
    };
    let error = last_error.as_deref().and_then(|error| error.lines().next()).unwrap_or_default();
    let cells = [
        name.clone(),
        word.to_owned(),
        format!("{:.1}", figures.per_minute),
        figures.failed.to_string(),
        time(figures.p50_ms),
        time(figures.p99_ms),
        sessions.to_string(),
        error.to_owned(),
    ];
    (tone, cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::console::paint::plain;

    #[test]
    fn the_busiest_backend_is_the_first_and_a_failed_one_says_why() {
        let backend = |name: &str, state: BackendState, error: Option<&str>| BackendStatus {
            name: name.to_owned(),
            state,
            last_error: error.map(str::to_owned),
            ..BackendStatus::default()
        };
        let status = StatusReport {
            version: "1.2.3".to_owned(),
            backends: vec![
                backend("alpha", BackendState::Failed, Some("refused\nmore")),
                backend("beta", BackendState::Connected, None),
            ],
            ..StatusReport::default()
        };
        let now = SystemTime::now();
        let call = figures::tests::call("beta", now, 12.0, "ok");
        let text = plain(&human_text(&Overview::new(status, vec![call], now)));
        let rows: Vec<_> = text.lines().skip(3).collect();
        assert!(text.starts_with("vmcp 1.2.3  up 0s"), "{text}");
        assert!(rows[0].starts_with("beta     connected  0.2        0       12.0 ms"), "{text}");
        assert!(rows[1].starts_with("alpha    failed") && rows[1].ends_with("refused"), "{text}");
        assert!(text.contains("LATEST CALLS\n"), "{text}");
    }
}
