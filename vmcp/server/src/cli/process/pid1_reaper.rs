//! What `vmcp` does as the first process of a container, besides its work.
//!
//! The kernel gives the first process whatever loses its parent, and npx, uvx and shells leave much behind. Somebody has to
//! wait for each of them, or it stays in the table of processes for ever. Next to tokio, which waits for its own children,
//! that could not be done without taking ends away from it. So the first process starts `vmcp` once more, and does nothing
//! but pass signals on and wait.

use std::io::{self, IsTerminal as _};
use std::process::Command;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::console::failure::CommandFailure;

const INIT_PID: u32 = 1;
/// Added to the number of the signal that ended a process, as shells have it.
const SIGNAL_EXIT_BASE: i32 = 128;

/// Returns in a process that is to do the work: at once, unless this is the first process. That one starts the same command
/// as its child, and ends as that ends.
pub(in crate::cli) fn run_as_child() -> Result<(), CommandFailure> {
    if std::process::id() != INIT_PID {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let code = runtime
        .block_on(run())
        .map_err(|error| CommandFailure::new(format!("as the first process: {error}")))?;
    std::process::exit(code)
}

/// Gives the exit code of the child.
async fn run() -> io::Result<i32> {
    // Listened to before there is a child, so that none is lost. Those that it does not listen to do nothing, as before.
    let mut ended = signal(SignalKind::child())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // A terminal interrupts the child too, and a second interrupt would end its calls.
    let at_terminal = io::stdin().is_terminal();
    let child = Command::new(std::env::current_exe()?).args(std::env::args_os().skip(1)).spawn()?;
    let child = Pid::from_raw(child.id().cast_signed());
    loop {
        if let Some(code) = reap(child)? {
            return Ok(code);
        }
        let passed_on = tokio::select! {
            _ = ended.recv() => None,
            _ = terminate.recv() => Some(Signal::SIGTERM),
            _ = interrupt.recv() => (!at_terminal).then_some(Signal::SIGINT),
        };
        if let Some(signal) = passed_on {
            // It is there as long as it was not waited for.
            kill(child, signal)?;
        }
    }
}

/// Waits for everything that has ended, several of which one signal may announce. Gives the exit code of `child` if it is
/// among them.
fn reap(child: Pid) -> io::Result<Option<i32>> {
    loop {
        let (pid, code) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => (pid, code),
            Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, SIGNAL_EXIT_BASE + signal as i32),
            Ok(WaitStatus::StillAlive) => return Ok(None),
            Ok(_) | Err(Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
        };
        if pid == child {
            return Ok(Some(code));
        }
    }
}
