//! How others reach the conductor.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use vmcp_config::Config;

use super::fleet::BackendChanges;

/// How others reach the task.
#[derive(Clone)]
pub(super) struct ConductorHandle {
    commands: mpsc::Sender<Command>,
}

/// What the conductor is told to do, and where it answers.
pub(super) enum Command {
    Apply(Box<Config>, oneshot::Sender<BackendChanges>),
    LoadVectors(oneshot::Sender<()>),
    Shutdown(Duration, oneshot::Sender<()>),
}

impl ConductorHandle {
    /// The handle, and the commands that it is given.
    pub(super) fn new() -> (ConductorHandle, mpsc::Receiver<Command>) {
        let (commands, inbox) = mpsc::channel(16);
        (ConductorHandle { commands }, inbox)
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(command(answer)).await.ok()?;
        answered.await.ok()
    }

    /// Puts a configuration in force.
    pub(super) async fn apply(&self, config: Config) -> BackendChanges {
        self.ask(|answer| Command::Apply(Box::new(config), answer)).await.unwrap_or_default()
    }

    /// Publishes a snapshot with the vectors that the store has by now.
    pub(super) async fn load_vectors(&self) {
        self.ask(Command::LoadVectors).await;
    }

    /// Stops all backends; calls in flight have `grace` to end.
    pub(super) async fn shutdown(&self, grace: Duration) {
        self.ask(|answer| Command::Shutdown(grace, answer)).await;
    }
}
