//! [`SharedServer`]: the one server of a configuration file, joined if it runs, started if it does not.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::local_answers::NOT_RUNNING;
use super::own_commands::OwnCommands;
use super::server_link::ServerLink;
use crate::cli::running_server::start_lock;

/// Attempts to join a server that runs. A server that is ending refuses clients.
const JOIN_ATTEMPTS: u32 = 20;
/// Pause between two of them.
const JOIN_INTERVAL: Duration = Duration::from_millis(500);

/// The server of a configuration file, as one client sees it.
#[derive(Debug)]
pub(super) struct SharedServer {
    /// Absolute path of the configuration file.
    pub(super) config: PathBuf,
    /// The part that the client sees; everything without one.
    pub(super) profile: Option<String>,
    /// Commands that start and end the server.
    pub(super) commands: OwnCommands,
}

impl SharedServer {
    /// Joins the running server; `None` without one.
    pub(super) async fn join(&self) -> Result<Option<ServerLink>, String> {
        ServerLink::join(&self.config, self.profile.as_deref()).await
    }

    /// Joins the running server, or starts one. A server that was stopped on purpose is started for a new
    /// client only.
    pub(super) async fn join_or_start(&self, is_new_client: bool) -> Result<ServerLink, String> {
        for attempt in 0..JOIN_ATTEMPTS {
            if let Some(link) = self.join().await? {
                return Ok(link);
            }
            if !is_new_client && start_lock::is_marked_stopped(&self.config) {
                return Err(NOT_RUNNING.to_owned());
            }
            if attempt > 0 {
                tokio::time::sleep(JOIN_INTERVAL).await;
            }
            // A stop after the first attempt came after the client.
            let report = if is_new_client && attempt == 0 {
                self.commands.start_for_new_client().await
            } else {
                // Between the look at the mark and the lock, the server may be stopped on purpose.
                self.commands.start_unless_stopped().await
            };
            let is_true = |key: &str| report.get(key).and_then(Value::as_bool).unwrap_or(false);
            if is_true("stopped") {
                return Err(NOT_RUNNING.to_owned());
            }
            if !is_true("success") && !is_true("already_running") {
                let reason = report.get("error").and_then(Value::as_str);
                return Err(reason.unwrap_or("the daemon does not start").to_owned());
            }
        }
        Err(format!(
            "a server runs with {} and takes no clients; `vmcp restart` replaces it",
            self.config.display()
        ))
    }
}
