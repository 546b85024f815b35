//! `vmcp end-orphans`: the helper process of [`OrphanGuard`], which ends what a killed vmcp left running.

use std::collections::BTreeSet;
use std::io::BufRead as _;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use vmcp_backend::OrphanGuard;

use crate::cli::console::failure::Exit;

/// Name of the hidden command.
const COMMAND: &str = "end-orphans";
/// Time that orphans have to end after SIGTERM; then they are killed.
const GRACE: Duration = Duration::from_secs(2);

/// Returns the guard of this process; `None` if its own program cannot be found.
pub(in crate::cli) fn guard() -> Option<Arc<OrphanGuard>> {
    let mut command = Command::new(super::own_program()?);
    // The name that `ps` shows.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::arg0(&mut command, "vmcp");
    command.arg(COMMAND);
    Some(OrphanGuard::new(command))
}

/// Runs the command: follows `+PGID` and `-PGID` lines until standard input ends, then ends the groups that
/// are left.
#[expect(clippy::disallowed_methods, reason = "there is no runtime in this process")]
pub(in crate::cli) fn run() -> Exit {
    let mut groups = BTreeSet::new();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let id = |digits: &str| digits.parse::<i32>().ok().filter(|id| *id > 1);
        if let Some(id) = line.strip_prefix('+').and_then(id) {
            groups.insert(id);
        } else if let Some(id) = line.strip_prefix('-').and_then(id) {
            groups.remove(&id);
        }
    }
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        // A group without processes is gone, which is the aim.
        groups.retain(|id| killpg(Pid::from_raw(*id), signal).is_ok());
        if groups.is_empty() {
            break;
        }
        std::thread::sleep(GRACE);
    }
    Exit::Done
}
