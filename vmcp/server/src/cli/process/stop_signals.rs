//! SIGTERM, SIGINT, SIGQUIT and SIGHUP (a terminal that closes), the signals that stop a server; and SIGUSR1
//! and SIGUSR2, which by default end a process without a cleanup and are ignored here.

use tokio::signal::unix::{SignalKind, signal};

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
