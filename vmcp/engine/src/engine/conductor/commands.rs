//! Commands to the conductor: a handle that sends a command and waits for its answer (actor pattern).

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use vmcp_config::Config;

use crate::engine::fleet::BackendChanges;

/// Handle to the conductor. Cheap to clone.
#[derive(Clone)]
pub(in crate::engine) struct ConductorHandle {
    commands: mpsc::Sender<Command>,
}

/// A command to the conductor, with the channel for its answer.
pub(in crate::engine) enum Command {
    Apply(Box<Config>, oneshot::Sender<BackendChanges>),
    LoadVectors(oneshot::Sender<()>),
    Rebuild(oneshot::Sender<()>),
    RebuildAndRecord(oneshot::Sender<()>),
    Shutdown(Duration, oneshot::Sender<()>),
}

impl ConductorHandle {
    /// Returns the handle and the receiver of its commands, of which 16 may wait.
    pub(in crate::engine) fn new() -> (ConductorHandle, mpsc::Receiver<Command>) {
        let (commands, inbox) = mpsc::channel(16);
        (ConductorHandle { commands }, inbox)
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(command(answer)).await.ok()?;
        answered.await.ok()
    }

    /// Puts a configuration in force; returns which backends were started, replaced and stopped.
    pub(in crate::engine) async fn apply(&self, config: Config) -> BackendChanges {
        self.ask(|answer| Command::Apply(Box::new(config), answer)).await.unwrap_or_default()
    }

    /// Publishes a snapshot with the vectors that the store has by now.
    pub(in crate::engine) async fn load_vectors(&self) {
        self.ask(Command::LoadVectors).await;
    }

    /// Publishes a snapshot of the present listings.
    pub(in crate::engine) async fn rebuild(&self) {
        self.ask(Command::Rebuild).await;
    }

    /// As [`Self::rebuild`], and waits until the listings are in the cache.
    pub(in crate::engine) async fn rebuild_and_record(&self) {
        self.ask(Command::RebuildAndRecord).await;
    }

    /// Stops all backends; calls in flight have `grace` to end.
    pub(in crate::engine) async fn shutdown(&self, grace: Duration) {
        self.ask(|answer| Command::Shutdown(grace, answer)).await;
    }
}
