//! The `vmcp-operator` binary: parses the command line and runs [`vmcp_operator`].

use std::process::ExitCode;

use clap::Parser as _;
use vmcp_error_chain::error_chain;
use vmcp_operator::cli::Cli;

#[tokio::main]
#[expect(clippy::print_stderr, reason = "the last word of a process that cannot run")]
async fn main() -> ExitCode {
    match Cli::parse().execute().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vmcp-operator: {}", error_chain(&error));
            ExitCode::FAILURE
        }
    }
}
