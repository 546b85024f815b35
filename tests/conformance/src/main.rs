//! Runs the official conformance suite and prints one table.
//!
//! Server scenarios run against a server direct and through vmcp, and are compared check by check: a check
//! that passes direct has to pass through. Client scenarios are servers themselves: vmcp stands before them,
//! and a client before vmcp.

mod checks;
mod client_side;
mod driver;
mod expected;
mod server_side;
mod suite;
mod table;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use table::Row;

/// Run the official conformance suite: a server direct and through vmcp, and vmcp as a client
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Keep the reports of the suite in this folder
    #[arg(long, global = true)]
    keep: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server scenarios only
    Server,
    /// Run the client scenarios only
    Client,
    /// Be the client of a scenario: start vmcp with this backend and do what the scenario asks for
    #[command(hide = true)]
    Drive {
        /// URL of the scenario's server
        url: String,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    if let Some(Command::Drive { url }) = args.command {
        driver::drive(&url).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let scratch = tempfile::tempdir()?;
    let folder = args.keep.as_deref().unwrap_or(scratch.path());
    let mut rows: Vec<Row> = Vec::new();
    if !matches!(args.command, Some(Command::Client)) {
        rows.extend(server_side::run(folder).await?);
    }
    if !matches!(args.command, Some(Command::Server)) {
        rows.extend(client_side::run(folder).await?);
    }
    writeln!(std::io::stdout(), "{}", table::render(&rows))?;
    let bad = rows.iter().any(Row::is_bad);
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
