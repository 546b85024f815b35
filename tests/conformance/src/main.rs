//! Runs the official conformance suite and prints one table.
//!
//! Its server scenarios run against a server direct and through vmcp, and are compared check by check: what passes direct
//! has to pass through. Its client scenarios, which are servers, have vmcp in front of them and a client in front of that.

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

/// Runs the official conformance suite: a server direct and through vmcp, and vmcp as a client.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Keep what the suite reports in this folder.
    #[arg(long, global = true)]
    keep: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Only the server scenarios.
    Server,
    /// Only the client scenarios.
    Client,
    /// Be the client of a scenario: start vmcp with this backend and do what the scenario is about.
    #[command(hide = true)]
    Drive {
        /// The scenario's server.
        url: String,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    if let Some(Command::Drive { url }) = args.command {
        driver::drive(&url).await;
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
