//! `vmcp runs`: the latest runs of composite tools at the running server, or the steps of one.

use clap::Args;
use serde::{Deserialize, Serialize};
use vmcp_engine::runs::report::{RunReport, RunState, StepReport};

use crate::cli::connection::{self, Connection, ServerOptions};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::console::paint::Tone;
use crate::cli::options::GlobalOptions;

/// Characters of an id that the table shows; any beginning of an id names the run.
const SHORT_ID: usize = 8;
/// Characters of a begin that are shown: hours, minutes and seconds.
const CLOCK: std::ops::Range<usize> = 11..19;

/// Show the latest runs of composite tools, or the steps of one
#[derive(Debug, Args)]
#[command(after_help = "A server remembers its latest 500 runs, without their arguments and results.")]
pub(in crate::cli) struct Arguments {
    /// Show this run with its steps: an id, or its beginning
    id: Option<String>,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// The answer of the server.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    runs: Vec<RunReport>,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { id, output: format, server_options } = arguments;
    connection::with_server(global, &server_options, async |connection: &Connection| {
        let mut report: Report = connection.admin("admin/runs").await?;
        if let Some(id) = &id {
            report.runs.retain(|run| run.id.starts_with(id.as_str()));
        }
        let shows_steps = id.is_some();
        output::print(format, &report, || shown(&report.runs, shows_steps))?;
        Ok(if report.runs.is_empty() { Exit::NothingFound } else { Exit::Done })
    })
}

/// Returns the table of runs; with steps, one block a run.
fn shown(runs: &[RunReport], shows_steps: bool) -> String {
    if runs.is_empty() {
        return "no run of a composite tool".to_owned();
    }
    if !shows_steps {
        let header = ["ID", "STATE", "BEGUN", "TOOK", "TOOL", "WHO"];
        return output::toned_table(header, runs.iter().map(|run| (tone(run.state), row(run))));
    }
    runs.iter().map(block).collect::<Vec<_>>().join("\n\n")
}

fn row(run: &RunReport) -> [String; 6] {
    [
        run.id.chars().take(SHORT_ID).collect(),
        word(run.state).to_owned(),
        run.begun.get(CLOCK).unwrap_or(&run.begun).to_owned(),
        took(Some(run.took_ms)),
        run.tool.clone(),
        run.who.clone(),
    ]
}

/// Returns one run with its steps.
fn block(run: &RunReport) -> String {
    let mut head = vec![
        format!("run    {}", run.id),
        format!("tool   {}", run.tool),
        format!("state  {}", word(run.state)),
        format!("who    {}", run.who),
        format!("begun  {}, {}", run.begun, took(Some(run.took_ms))),
    ];
    head.extend(run.error.as_ref().map(|error| format!("error  {error}")));
    let steps = run.steps.iter().map(|step| {
        let StepReport { id, state, took_ms, error } = step;
        let cells = [id.clone(), word(*state).to_owned(), took(*took_ms), error.clone().unwrap_or_default()];
        (tone(*state), cells)
    });
    format!("{}\n\n{}", head.join("\n"), output::toned_table(["STEP", "STATE", "TOOK", "ERROR"], steps))
}

fn word(state: RunState) -> &'static str {
    match state {
        RunState::Running => "running",
        RunState::Waiting => "waiting",
        RunState::Done => "done",
        RunState::Failed => "failed",
        RunState::Skipped => "skipped",
        RunState::Unknown => "unknown",
    }
}

/// Returns the tone of a state that needs attention.
fn tone(state: RunState) -> Option<Tone> {
    match state {
        RunState::Running | RunState::Done | RunState::Skipped => None,
        RunState::Waiting => Some(Tone::Warning),
        RunState::Failed | RunState::Unknown => Some(Tone::Bad),
    }
}

/// Writes milliseconds with three digits or so.
fn took(milliseconds: Option<u64>) -> String {
    let Some(milliseconds) = milliseconds else { return "-".to_owned() };
    let seconds = milliseconds / 1000;
    match seconds {
        0 => format!("{milliseconds} ms"),
        1..60 => format!("{:.1} s", milliseconds as f64 / 1e3),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        _ => format!("{}h {}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::console::paint;

    fn triage() -> RunReport {
        let step = |id: &str, state, took_ms, error: Option<&str>| StepReport {
            id: id.to_owned(),
            state,
            took_ms,
            error: error.map(str::to_owned),
        };
        RunReport {
            id: "0123456789abcdef0123456789abcdef".to_owned(),
            tool: "look_up_an_issue_and_file_it".to_owned(),
            state: RunState::Failed,
            who: "alice@example.com".to_owned(),
            begun: "2026-11-26T21:03:11.123Z".to_owned(),
            took_ms: 62_300,
            error: Some("step `file` failed: jira.create: no such project".to_owned()),
            steps: vec![
                step("search", RunState::Done, Some(120), None),
                step("file", RunState::Failed, None, Some("jira.create: no such project")),
            ],
        }
    }

    #[test]
    fn a_run_is_one_line_of_80_columns() {
        let table = paint::plain(&shown(&[triage()], false));
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 2, "{table}");
        let line = "01234567  failed  21:03:11  1m 2s  look_up_an_issue_and_file_it  alice@example.com";
        assert_eq!(lines[1], line);
        assert!(
            line.find("alice").is_some_and(|at| at + "alice@exampl".len() <= 80),
            "the last column is cut"
        );
    }

    #[test]
    fn one_run_shows_its_steps_and_its_error() {
        let text = paint::plain(&shown(&[triage()], true));
        assert!(text.contains("error  step `file` failed"), "{text}");
        assert!(text.contains("search  done    120 ms"), "{text}");
        assert!(text.contains("file    failed  -       jira.create: no such project"), "{text}");
        assert_eq!(shown(&[], true), "no run of a composite tool");
    }
}
