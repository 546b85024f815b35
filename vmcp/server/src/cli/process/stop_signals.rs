//! SIGTERM, SIGINT and SIGHUP (a terminal that closes), the signals that stop a server.

use tokio::signal::unix::{SignalKind, signal};

/// Exit code of a process that received a second signal while it was stopping: 128 + SIGINT, as in shells.
const INTERRUPTED: i32 = 130;

/// Receiver of SIGTERM, SIGINT and SIGHUP.
pub(in crate::cli) struct StopSignals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl StopSignals {
    pub(in crate::cli) fn listen() -> std::io::Result<StopSignals> {
        Ok(StopSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }

    /// Waits for the first signal, which starts a graceful shutdown. From then on a second one ends the
    /// process at once.
    pub(in crate::cli) async fn wait(mut self) {
        self.next().await;
        tracing::info!("stopping; requests in flight may end, a second signal ends at once");
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(INTERRUPTED);
        });
    }
}
