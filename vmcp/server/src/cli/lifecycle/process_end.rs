//! End of a server's process: SIGTERM, on which it drains, and SIGKILL for a server that is stuck.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use vmcp_config::Server;

use crate::cli::console::failure::CommandFailure;
use crate::cli::console::progress;

/// Time that backends have to stop after the last request has ended; those still running are killed.
pub(in crate::cli) const BACKEND_GRACE: Duration = Duration::from_secs(5);
/// Interval at which an ending process is looked at.
const END_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time that a server may take beyond its drain and the stop of its backends: it sends its last metrics and
/// writes its records. A server that runs beyond it is stuck.
const STUCK_GRACE: Duration = Duration::from_secs(10);
/// Time that a killed process has to disappear.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Time to wait for the end of a server whose settings are unknown.
const UNKNOWN_WAIT: Duration = Duration::from_mins(1);

/// Limits of the wait for the end of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EndLimits {
    wait: Duration,
    /// A server that runs after the wait is killed: its drain is over.
    kills: bool,
}

impl EndLimits {
    /// Makes the limits from `--timeout` and the server's settings. Without `--timeout` the wait lasts until
    /// a healthy server has ended. A shorter wait, and one for a server with unknown settings, kills nothing.
    pub(super) fn new(timeout: Option<Duration>, server: Option<&Server>) -> EndLimits {
        let deadline = server.map(|server| {
            let drained = server.shutdown_delay.saturating_add(server.drain_timeout);
            drained.saturating_add(BACKEND_GRACE).saturating_add(STUCK_GRACE)
        });
        let wait = timeout.or(deadline).unwrap_or(UNKNOWN_WAIT);
        EndLimits { wait, kills: deadline.is_some_and(|deadline| wait >= deadline) }
    }
}

/// Way in which a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessEnd {
    /// By itself, after its drain.
    Drained,
    /// By SIGKILL, after this wait.
    Killed(Duration),
}

impl ProcessEnd {
    /// Returns true for a process that was killed.
    pub(super) fn is_killed(self) -> bool {
        matches!(self, ProcessEnd::Killed(_))
    }

    /// Returns the message of a report; `done` is `stopped` or `restarted`.
    pub(super) fn message(self, done: &str) -> String {
        match self {
            ProcessEnd::Drained => format!("Daemon {done} successfully"),
            ProcessEnd::Killed(waited) => {
                format!(
                    "Daemon {done} by force: it was stuck, and was killed (SIGKILL) after {} s; its calls in \
                     flight are lost, and a service manager may start it again",
                    waited.as_secs()
                )
            }
        }
    }
}

/// Ends a process by SIGTERM and waits until it is gone; a process that is stuck is killed.
pub(super) async fn end_process(pid: u32, limits: EndLimits) -> Result<ProcessEnd, CommandFailure> {
    let process = i32::try_from(pid).map(Pid::from_raw).map_err(|_| CommandFailure::new("no process id"))?;
    kill(process, Signal::SIGTERM)
        .map_err(|error| CommandFailure::new(format!("cannot signal process {pid}: {error}")))?;
    let spinner = progress::spinner("waiting for calls in flight");
    let started = Instant::now();
    let mut is_gone = until_gone(process, limits.wait).await;
    let kills = !is_gone && limits.kills;
    if kills {
        // Fails for a process that has ended meanwhile.
        let _ = kill(process, Signal::SIGKILL);
        is_gone = until_gone(process, KILL_TIMEOUT).await;
    }
    spinner.finish_and_clear();
    match (is_gone, kills) {
        (true, false) => Ok(ProcessEnd::Drained),
        (true, true) => Ok(ProcessEnd::Killed(started.elapsed())),
        (false, false) => Err(CommandFailure::new(format!("process {pid} is still ending")).remedy(format!(
            "wait, or end it at once: kill {pid} (kill -9 {pid} if it hangs); without --timeout this command \
             does so once the drain is over"
        ))),
        (false, true) => Err(CommandFailure::new(format!("process {pid} does not end, even by SIGKILL"))
            .remedy("it waits for a disk or a network drive that does not answer; mend that first")),
    }
}

/// Waits until a process is gone; returns false if it runs after `limit`.
async fn until_gone(process: Pid, limit: Duration) -> bool {
    let started = Instant::now();
    while is_alive(process) {
        if started.elapsed() >= limit {
            return false;
        }
        tokio::time::sleep(END_POLL_INTERVAL).await;
    }
    true
}

/// True while a process runs. In a container whose first process reaps nothing, an ended one stays a zombie.
fn is_alive(process: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    let is_zombie = stat.is_ok_and(|text| {
        text.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('Z'))
    });
    kill(process, None).is_ok() && !is_zombie
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;

    fn server(text: &str) -> Server {
        vmcp_config::load(text, "vmcp.yaml", &|_: &str| None).unwrap().config.server
    }

    #[test]
    fn only_a_server_whose_drain_is_over_is_killed() {
        let server = server("server: { drainTimeout: 20s, shutdownDelay: 5s }");
        let limits = |timeout, server| EndLimits::new(timeout, server);
        let seconds = Duration::from_secs;
        let over = EndLimits { wait: seconds(40), kills: true };
        assert_eq!(limits(None, Some(&server)), over);
        assert_eq!(limits(Some(seconds(1)), Some(&server)), EndLimits { wait: seconds(1), kills: false });
        assert_eq!(limits(Some(seconds(60)), Some(&server)), EndLimits { wait: seconds(60), kills: true });
        assert_eq!(limits(None, None), EndLimits { wait: UNKNOWN_WAIT, kills: false });
    }

    #[tokio::test]
    async fn a_process_that_ignores_sigterm_is_killed_after_its_deadline() {
        let begin = |script: &str| {
            let child = Command::new("sh").args(["-c", script]).process_group(0).spawn().unwrap();
            (child.id(), child)
        };
        // The shell says that it is ready, because a signal before the trap would end it.
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let (pid, mut deaf) =
            begin(&format!("trap '' TERM; touch {}; while :; do sleep 0.1; done", ready.display()));
        while !ready.exists() {
            tokio::time::sleep(END_POLL_INTERVAL).await;
        }
        let limits = EndLimits { wait: Duration::from_millis(300), kills: false };
        let failure = end_process(pid, limits).await.unwrap_err();
        assert!(failure.message().contains("still ending"), "{}", failure.message());
        let end = end_process(pid, EndLimits { kills: true, ..limits }).await.unwrap();
        assert!(end.is_killed() && end.message("stopped").contains("SIGKILL"), "{end:?}");
        assert!(!deaf.wait().unwrap().success());
        let (pid, mut obedient) = begin("exec sleep 60");
        let end = end_process(pid, EndLimits { kills: true, wait: Duration::from_secs(30) }).await.unwrap();
        assert_eq!((end, &*end.message("stopped")), (ProcessEnd::Drained, "Daemon stopped successfully"));
        obedient.wait().unwrap();
    }
}
