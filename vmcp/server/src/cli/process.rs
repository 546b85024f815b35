//! The process itself: its runtime, the signals that stop it, its role as the first process of a container,
//! and the helpers that it starts: for scripts, and to end what a killed vmcp leaves running.

pub(super) mod orphan_reaper;
pub(super) mod pid1_reaper;
pub(super) mod shell_variables;
mod stop_signals;

use std::path::{Path, PathBuf};

use vmcp_script::pool::WorkerProgram;

pub(super) use self::stop_signals::StopSignals;
use crate::cli::console::failure::CommandFailure;

/// Path of Linux to the file that the reading process runs.
const OWN_FILE: &str = "/proc/self/exe";

/// Runs the async part of a command on a runtime of its own.
pub(super) fn block_on<T>(
    work: impl Future<Output = Result<T, CommandFailure>>,
) -> Result<T, CommandFailure> {
    let runtime = tokio::runtime::Runtime::new()?;
    let outcome = runtime.block_on(work);
    // A thread that is blocked on standard input would keep the process alive, so it is left behind.
    runtime.shutdown_background();
    outcome
}

/// Returns this program as a worker for scripts (`vmcp exec-worker`); `None` if its file is unknown.
pub(super) fn script_worker() -> Option<WorkerProgram> {
    Some(WorkerProgram { program: own_program()?, arguments: vec!["exec-worker".into()] })
}

/// Returns a path that starts the program of this process as a helper, of the same version: on Linux also
/// after an upgrade has replaced or removed the file.
fn own_program() -> Option<PathBuf> {
    let own_file = Path::new(OWN_FILE);
    if own_file.exists() { Some(own_file.to_owned()) } else { std::env::current_exe().ok() }
}
