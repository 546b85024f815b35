//! Reaper for PID 1: the first process of a container collects the zombies that others leave behind.
//!
//! The kernel makes PID 1 the parent of every orphan, and npx, uvx and shells leave many. A zombie stays in
//! the process table until its parent waits for it. `waitpid(-1)` would also take the exits of tokio's own
//! children, so the work runs in a child: PID 1 starts the same command once more, passes the signals that
//! stop a server on, and reaps.

use std::io::{self, IsTerminal as _};
use std::process::Command;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::console::failure::CommandFailure;

const INIT_PID: u32 = 1;
/// Added to the number of the signal that killed a process, as in shells.
const SIGNAL_EXIT_BASE: i32 = 128;

/// Returns at once unless this is PID 1. In PID 1, starts the same command as a child, reaps until that child
/// ends, and exits with its code.
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

/// Returns the exit code of the child.
async fn run() -> io::Result<i32> {
    // Registered before the child exists, so that no signal is lost. PID 1 ignores signals without a handler.
    let mut ended = signal(SignalKind::child())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut quit = signal(SignalKind::quit())?;
    let mut hangup = signal(SignalKind::hangup())?;
    // A terminal sends these to the child too; passing one on would make a second one, which ends calls in
    // flight.
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
            _ = quit.recv() => (!at_terminal).then_some(Signal::SIGQUIT),
            _ = hangup.recv() => (!at_terminal).then_some(Signal::SIGHUP),
        };
        if let Some(signal) = passed_on {
            // The child was not reaped yet, so its id is still its own.
            kill(child, signal)?;
        }
    }
}

/// Reaps all processes that have ended; one SIGCHLD may stand for several. Returns the exit code of `child`
/// if it is among them.
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
