//! `vmcp audit`: verifies files of audit events.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use vmcp_engine::telemetry::audit::verify::{self, AuditReport};

use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::{self, OutputFormat};

/// Verify files of audit events
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Verify(VerifyArguments),
}

/// Verify that no line of audit files was changed, removed or put in
///
/// Each line holds the SHA-256 of the line before it. Rotated files (FILE.1, FILE.2, …) and those of busy
/// clients (FILE.busy) are read with each file. Exit code 1: the chain is broken.
#[derive(Debug, Args)]
struct VerifyArguments {
    /// Files of `audit.logFile`
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Format of the result
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments) -> Result<Exit, CommandFailure> {
    let Command::Verify(VerifyArguments { files, output: format }) = arguments.command;
    let report = verify::verify(&files).map_err(|error| {
        CommandFailure::new(format!("cannot read the files: {error}"))
            .remedy("name files of `audit.logFile`, and read them as their owner")
    })?;
    output::print(format, &report, || shown(&report))?;
    Ok(if report.faults.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Returns the report for people.
fn shown(report: &AuditReport) -> String {
    let AuditReport { files, events, processes, missing, cut_beginnings, faults } = report;
    let mut text = String::new();
    for fault in faults {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}:{}: {}", fault.file.display(), fault.line, fault.reason);
    }
    let verdict = if faults.is_empty() { "the chain is whole" } else { "the chain is broken" };
    let _ = writeln!(text, "{verdict}: {events} events of {processes} processes in {} files", files.len());
    if *cut_beginnings > 0 {
        let _ = writeln!(
            text,
            "{cut_beginnings} series of files begin after lines that are not there: rotated away, removed, or not given"
        );
    }
    if *missing > 0 {
        let _ = writeln!(
            text,
            "{missing} numbers are missing: events that were dropped (vmcp_audit_events_dropped_total), or are in files \
             that were not given"
        );
    }
    text
}
