//! The built `vmcp bridge`, running with one program behind it.

use std::ffi::OsStr;

use tokio::process::Command;

use crate::process::children;
use crate::{Client, Process, eventually, free_port, http_client, vmcp_command};

/// A running `vmcp bridge`; killed when dropped.
pub struct Bridge {
    /// URL of the MCP endpoint.
    pub url: String,
    /// URL of the admin port, without a path.
    pub admin: String,
    /// Process of the bridge.
    pub process: Process,
}

impl Bridge {
    /// Starts a bridge with these variables alone and waits until its program is up.
    pub async fn start(program: &[&str], env: &[(&str, &OsStr)]) -> Self {
        let bridge = Self::spawn(program, env);
        bridge.ready().await;
        bridge
    }

    /// Starts a bridge with these variables alone and waits for nothing.
    pub fn spawn(program: &[&str], env: &[(&str, &OsStr)]) -> Self {
        Self::spawn_with(&[], program, env)
    }

    /// Starts a bridge as [`Bridge::spawn`] does, with options before the program; an empty program goes with
    /// the option `--url`.
    pub fn spawn_with(options: &[&str], program: &[&str], env: &[(&str, &OsStr)]) -> Self {
        let [client, admin] = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
        let mut command = vmcp_command();
        command.args(["bridge", "--listen", &client, "--admin-listen", &admin]);
        command.args(options);
        if !program.is_empty() {
            command.arg("--").args(program);
        }
        command.env_clear().envs(env.iter().copied());
        Self {
            url: format!("http://{client}/mcp"),
            admin: format!("http://{admin}"),
            process: Process::start("vmcp bridge", &mut command),
        }
    }

    /// Returns a modern client.
    pub fn modern(&self) -> Client {
        Client::modern(&self.url)
    }

    /// Returns a legacy client with a session.
    pub async fn legacy(&self) -> Client {
        Client::legacy(&self.url, "2025-11-25", "raw").await
    }

    /// Waits until the program is up.
    pub async fn ready(&self) {
        self.readiness("to be ready", 200, "").await;
    }

    /// Waits until `/readyz` has this status, and `text` in its body.
    pub async fn readiness(&self, what: &str, status: u16, text: &str) {
        let url = format!("{}/readyz", self.admin);
        eventually(&format!("the bridge {what}"), async || {
            let answer = http_client().get(&url).send().await.ok()?;
            let same = answer.status() == status;
            answer.text().await.ok().filter(|said| same && said.contains(text))
        })
        .await;
    }

    /// Returns the process ids of its children.
    pub fn programs(&self) -> Vec<u32> {
        children(self.process.id())
    }

    /// Kills its children as a crash would.
    pub async fn kill_program(&self) {
        for program in self.programs() {
            let killed = Command::new("kill").arg("-KILL").arg(program.to_string()).status().await;
            assert!(killed.is_ok_and(|status| status.success()), "kill {program}");
        }
    }
}
