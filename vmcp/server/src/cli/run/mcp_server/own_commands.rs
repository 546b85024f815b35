//! [`OwnCommands`]: runs `vmcp start`, `stop`, `restart` and `status` as processes; their JSON reports are
//! the results of the tools. `vmcp start` ends once the server serves, and the server becomes a child of
//! PID 1: a client that kills this process with its children leaves the server to the other clients.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::cli::running_server::serve_options::ServeOptions;

/// Variables that would lead a command to another server.
const OTHER_SERVERS: [&str; 2] = ["VMCP_URL", "VMCP_ADMIN_URL"];

/// Commands of this program for one server.
#[derive(Debug, Clone)]
pub(super) struct OwnCommands {
    program: PathBuf,
    /// Options of all commands.
    global: Vec<OsString>,
    /// Time without a client after which a server that is started here ends; `None` for one of a cluster,
    /// which takes no options of a process.
    end_after_idle: Option<Duration>,
}

impl OwnCommands {
    /// Prepares the commands for `config`, an absolute path.
    pub(super) fn new(
        program: PathBuf,
        config: &Path,
        options: ServeOptions,
        end_after_idle: Duration,
    ) -> OwnCommands {
        // Without the first word, the arguments of `serve` are options of every command.
        let options = ServeOptions { listen: None, admin_listen: None, end_after_idle: None, ..options };
        let global = options.arguments(config).split_off(1);
        OwnCommands { program, global, end_after_idle: Some(end_after_idle) }
    }

    /// Prepares the commands for a VirtualMCPServer, which `options` name.
    pub(super) fn of_cluster(program: PathBuf, options: Vec<OsString>) -> OwnCommands {
        OwnCommands { program, global: options, end_after_idle: None }
    }

    /// Runs a command, and returns its report.
    pub(super) async fn run(&self, name: &str) -> Value {
        self.run_with(name, &[]).await
    }

    /// Starts the server for a new client, unless it is stopped on purpose while the command waits for
    /// another one, and returns the report.
    pub(super) async fn start_for_new_client(&self) -> Value {
        self.run_with("start", &["--unless-stopped-meanwhile"]).await
    }

    /// Starts the server unless it was stopped on purpose, and returns the report.
    pub(super) async fn start_unless_stopped(&self) -> Value {
        self.run_with("start", &["--unless-stopped"]).await
    }

    async fn run_with(&self, name: &str, options: &[&str]) -> Value {
        let mut command = Command::new(&self.program);
        command.arg(name).args(options).args(["--output", "json"]).args(&self.global).stdin(Stdio::null());
        if let Some(time) = self.end_after_idle.filter(|_| matches!(name, "start" | "restart")) {
            command.args(["--end-after-idle", &format!("{}ms", time.as_millis())]);
        }
        if name == "start" && self.end_after_idle.is_some() {
            command.arg("--any-port");
        }
        for variable in OTHER_SERVERS {
            command.env_remove(variable);
        }
        let output = match command.output().await {
            Ok(output) => output,
            Err(error) => return failed(&format!("cannot run {}: {error}", self.program.display())),
        };
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| failed(String::from_utf8_lossy(&output.stderr).trim()))
    }
}

fn failed(reason: &str) -> Value {
    json!({ "success": false, "error": reason, "message": reason })
}
