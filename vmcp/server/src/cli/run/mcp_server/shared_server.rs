//! [`SharedServer`]: the one server of a configuration file, joined if it runs, started if it does not; or a
//! VirtualMCPServer of a cluster, joined while it has a ready pod.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::cluster_link::ClusterLink;
use super::local_answers::NOT_RUNNING;
use super::own_commands::OwnCommands;
use super::server_link::ServerLink;
use crate::cli::running_server::start_lock;

/// Attempts to join a server that runs. A server that is ending refuses clients.
const JOIN_ATTEMPTS: u32 = 20;
/// Pause between two of them.
const JOIN_INTERVAL: Duration = Duration::from_millis(500);

/// The server, as one client sees it.
#[derive(Debug)]
pub(super) struct SharedServer {
    pub(super) place: ServerPlace,
    /// Commands that start and end the server.
    pub(super) commands: OwnCommands,
}

/// The place where a server runs.
#[derive(Debug)]
pub(super) enum ServerPlace {
    /// This machine.
    Local(LocalServer),
    /// A cluster.
    Cluster(ClusterLink),
}

/// The server of a configuration file.
#[derive(Debug)]
pub(super) struct LocalServer {
    /// Absolute path of the configuration file.
    pub(super) config: PathBuf,
    /// The part that the client sees; everything without one.
    pub(super) profile: Option<String>,
}

impl SharedServer {
    /// Joins the running server; `None` without one.
    pub(super) async fn join(&self) -> Result<Option<ServerLink>, String> {
        match &self.place {
            ServerPlace::Local(server) => server.join().await,
            ServerPlace::Cluster(link) => link.join().await.map(Some),
        }
    }

    /// Joins the running server, or starts one. A server that was stopped on purpose is started for a new
    /// client only.
    pub(super) async fn join_or_start(&self, is_new_client: bool) -> Result<ServerLink, String> {
        let server = match &self.place {
            ServerPlace::Local(server) => server,
            ServerPlace::Cluster(link) => {
                return match link.join().await {
                    Err(reason) if is_new_client && reason == NOT_RUNNING => {
                        let report = self.run_command("start").await;
                        if !is_true(&report, "success") && !is_true(&report, "already_running") {
                            return Err(failure_of(&report));
                        }
                        link.join().await
                    }
                    joined => joined,
                };
            }
        };
        for attempt in 0..JOIN_ATTEMPTS {
            if let Some(link) = server.join().await? {
                return Ok(link);
            }
            if !is_new_client && server.is_stopped() {
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
            if is_true(&report, "stopped") {
                return Err(NOT_RUNNING.to_owned());
            }
            if !is_true(&report, "success") && !is_true(&report, "already_running") {
                return Err(failure_of(&report));
            }
        }
        Err(format!(
            "a server runs with {} and takes no clients; `vmcp restart` replaces it",
            server.config.display()
        ))
    }

    /// True if the server was stopped on purpose. The next look at a cluster tells.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(&self.place, ServerPlace::Local(server) if server.is_stopped())
    }

    /// Runs the command of an own tool, and returns its report.
    pub(super) async fn run_command(&self, name: &str) -> Value {
        let report = self.commands.run(name).await;
        if let ServerPlace::Cluster(link) = &self.place {
            link.look_again();
        }
        report
    }
}

fn is_true(report: &Value, key: &str) -> bool {
    report.get(key).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns the reason of a start that failed.
fn failure_of(report: &Value) -> String {
    let reason = report.get("error").and_then(Value::as_str);
    reason.unwrap_or("the daemon does not start").to_owned()
}

impl LocalServer {
    async fn join(&self) -> Result<Option<ServerLink>, String> {
        ServerLink::join(&self.config, self.profile.as_deref()).await
    }

    fn is_stopped(&self) -> bool {
        start_lock::is_marked_stopped(&self.config)
    }
}
