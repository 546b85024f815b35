//! `vmcp exec-worker`: the helper process that runs one script, confined.

use std::process::ExitCode;

use clap::Args;
use vmcp_script::ResourceBounds;
use vmcp_script_worker::worker;

/// Bounds of the process.
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    /// Bytes of memory beyond those at the start
    #[arg(long)]
    memory: u64,
    /// Seconds of processor time
    #[arg(long)]
    cpu_seconds: u64,
}

/// Runs the script that comes by standard input.
pub(in crate::cli) fn run(arguments: &Arguments) -> ExitCode {
    worker::main(ResourceBounds { memory: arguments.memory, cpu_seconds: arguments.cpu_seconds })
}
