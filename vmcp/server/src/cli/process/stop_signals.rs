//! SIGTERM, SIGINT, SIGQUIT and SIGHUP (a terminal that closes), the signals that stop a server; and SIGUSR1
//! and SIGUSR2, which by default end a process without a cleanup and are ignored here.

use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

/// Variable that npm's launcher of vmcp sets. It forwards each signal, and a terminal signals both processes.
const LAUNCHED: &str = "VMCP_LAUNCHED";
/// Time after the first signal in which another one is the same signal, forwarded by the launcher.
const FORWARDED_WITHIN: Duration = Duration::from_secs(1);
/// Exit code of a process that received a second signal while it was stopping: 128 + SIGINT, as in shells.
const INTERRUPTED: i32 = 130;

/// Receiver of the signals that stop a server.
pub(in crate::cli) struct StopSignals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
    quit: tokio::signal::unix::Signal,
}

impl StopSignals {
    pub(in crate::cli) fn listen() -> std::io::Result<StopSignals> {
        // A handler stays registered without its receiver.
        for ignored in [SignalKind::user_defined1(), SignalKind::user_defined2()] {
            drop(signal(ignored)?);
        }
        Ok(StopSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
            _ = self.quit.recv() => {}
        }
    }

    /// Waits for the first signal, which starts a graceful shutdown. From then on a second one ends the
    /// process at once; behind npm's launcher, a second one after [`FORWARDED_WITHIN`].
    pub(in crate::cli) async fn wait(mut self) {
        self.next().await;
        let (first, is_launched) = (Instant::now(), std::env::var_os(LAUNCHED).is_some());
        tracing::info!("stopping; requests in flight may end, a second signal ends at once");
        tokio::spawn(async move {
            self.next().await;
            while is_forwarded(first.elapsed(), is_launched) {
                self.next().await;
            }
            std::process::exit(INTERRUPTED);
        });
    }
}

/// Returns true for a signal that the launcher forwards of the first one, `since_first` ago.
fn is_forwarded(since_first: Duration, is_launched: bool) -> bool {
    is_launched && since_first < FORWARDED_WITHIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forwarded_signal_is_no_second_one() {
        let soon = Duration::from_millis(20);
        assert!(is_forwarded(soon, true));
        assert!(!is_forwarded(soon, false), "without a launcher each signal counts");
        assert!(!is_forwarded(FORWARDED_WITHIN, true), "a person's second Ctrl-C counts");
    }
}
