//! The process itself: its runtime, the signals that stop it, and its role as the first process of a container.

pub(super) mod pid1_reaper;
mod stop_signals;

pub(super) use self::stop_signals::StopSignals;
use super::console::failure::CommandFailure;

/// Runs one command that waits for others.
pub(super) fn block_on<T>(
    work: impl Future<Output = Result<T, CommandFailure>>,
) -> Result<T, CommandFailure> {
    let runtime = tokio::runtime::Runtime::new()?;
    let outcome = runtime.block_on(work);
    // A thread that still reads standard input must not keep the process.
    runtime.shutdown_background();
    outcome
}
