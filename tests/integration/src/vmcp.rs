//! The built `vmcp serve`, running, and runs of its command line.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use serde_json::{Value, json};
use tokio::process::Command;

use crate::paths::{binary, free_port};
use crate::{Client, Fixture, MODERN, Process, RawConnection, eventually, http_client};

/// Returns the command of the built `vmcp`, for tests that start it in a way of their own.
pub fn vmcp_command() -> Command {
    Command::new(binary("vmcp"))
}

/// A `vmcp serve` that is yet to be started.
pub struct VmcpBuilder {
    config: Value,
    env: Vec<(String, String)>,
}

impl VmcpBuilder {
    /// Adds a fixture server as a backend.
    #[must_use]
    pub fn backend(self, fixture: &Fixture) -> Self {
        self.backend_entry(fixture.backend.clone())
    }

    /// Adds an entry to `backends`.
    #[must_use]
    pub fn backend_entry(mut self, entry: Value) -> Self {
        self.config["backends"].as_array_mut().expect("backends").push(entry);
        self
    }

    /// Lays `settings` over the configuration: objects merge, everything else replaces.
    #[must_use]
    pub fn config(mut self, settings: Value) -> Self {
        merge(&mut self.config, settings);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it and waits until it is ready. That it becomes ready whatever its backends do is part of every
    /// test.
    pub async fn start(self) -> Vmcp {
        let vmcp = self.spawn();
        vmcp.ready().await;
        vmcp
    }

    /// Starts it and waits for nothing.
    pub fn spawn(mut self) -> Vmcp {
        let home = tempfile::tempdir().expect("a temporary folder");
        let file = home.path().join("vmcp.yaml");
        let storage = &mut self.config["optimizer"]["storage"]["dir"];
        if storage.is_null() {
            *storage = json!(home.path().join("storage"));
        }
        // JSON is YAML.
        std::fs::write(&file, self.config.to_string()).expect("writing the configuration");
        let (port, admin_port) = (free_port(), free_port());
        let ports = [format!("127.0.0.1:{port}"), format!("127.0.0.1:{admin_port}")];
        Vmcp {
            url: format!("http://{}/mcp", ports[0]),
            admin: format!("http://{}", ports[1]),
            process: serve(&file, &ports, &self.env),
            ports,
            env: self.env,
            config: self.config,
            home,
        }
    }
}

/// A running `vmcp serve`; killed when dropped.
pub struct Vmcp {
    /// URL of the MCP endpoint.
    pub url: String,
    /// URL of the admin port, without a path.
    pub admin: String,
    /// Process of the server.
    pub process: Process,
    ports: [String; 2],
    env: Vec<(String, String)>,
    config: Value,
    home: tempfile::TempDir,
}

impl Vmcp {
    /// Returns a server without backends and embeddings; all other settings are the defaults.
    #[expect(clippy::new_ret_no_self, reason = "reads well: `Vmcp::new().backend(…).start()`")]
    pub fn new() -> VmcpBuilder {
        let config = json!({"backends": [], "optimizer": {"embeddings": {"provider": "none"}}});
        VmcpBuilder { config, env: Vec::new() }
    }

    /// Returns a modern client.
    pub fn modern(&self) -> Client {
        Client::modern(&self.url)
    }

    /// Returns a legacy client with a session.
    pub async fn legacy(&self) -> Client {
        Client::legacy(&self.url, "2025-11-25", "raw").await
    }

    /// Returns a client of the era of `revision`.
    pub async fn client(&self, revision: &str) -> Client {
        if revision == MODERN { self.modern() } else { Client::legacy(&self.url, revision, "raw").await }
    }

    /// Opens a bare connection to the client port.
    pub async fn connect(&self) -> RawConnection {
        self.try_connect().await.expect("a connection")
    }

    /// Opens a bare connection to the client port, unless it is closed.
    pub async fn try_connect(&self) -> Option<RawConnection> {
        RawConnection::open(self.url.trim_start_matches("http://").trim_end_matches("/mcp")).await
    }

    /// Waits until the catalog has `tool`, for backends connect in the background, and returns a modern
    /// client.
    pub async fn with_tool(&self, tool: &str) -> Client {
        let names = self.config["backends"].as_array().into_iter().flatten();
        let prefixes =
            names.filter_map(|backend| backend["name"].as_str()).filter(|name| tool.starts_with(name));
        let owner = prefixes.max_by_key(|name| name.len());
        let query = owner.map(|name| format!("?backend={name}")).unwrap_or_default();
        eventually(&format!("tool {tool}"), async || {
            let catalog = self.admin_json(&format!("admin/tools{query}")).await;
            catalog["tools"].as_array()?.iter().any(|known| known["name"] == tool).then_some(())
        })
        .await;
        self.modern()
    }

    /// Returns the answer of `/admin/status`.
    pub async fn status(&self) -> Value {
        self.admin_json("admin/status").await
    }

    /// Returns the JSON at a path of the admin port, without its first slash.
    pub async fn admin_json(&self, path: &str) -> Value {
        let answer = http_client().get(format!("{}/{path}", self.admin)).send().await;
        answer.expect("the admin port").json().await.expect("JSON from the admin port")
    }

    /// Returns the Prometheus metrics.
    pub async fn metrics(&self) -> String {
        let answer = http_client().get(format!("{}/metrics", self.admin)).send().await;
        answer.expect("the admin port").text().await.expect("metrics")
    }

    /// Returns the value of one counter, given everything before it on its line; 0 without such a line.
    pub async fn metric(&self, line: &str) -> u64 {
        let metrics = self.metrics().await;
        let found = metrics.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok());
        found.unwrap_or_default()
    }

    /// Replaces the configuration file with one where `settings` are laid over the present one; whole, by a
    /// rename, as editors do.
    pub fn reconfigure(&mut self, settings: Value) {
        merge(&mut self.config, settings);
        self.write_config(&self.config.to_string());
    }

    /// Replaces the configuration file with any text.
    pub fn write_config(&self, text: &str) {
        let next = self.home.path().join("next.yaml");
        std::fs::write(&next, text).expect("writing the configuration");
        std::fs::rename(next, self.config_file()).expect("replacing the configuration");
    }

    /// Returns the path of the configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.home.path().join("vmcp.yaml")
    }

    /// Returns the folder of its databases.
    pub fn storage(&self) -> PathBuf {
        self.home.path().join("storage")
    }

    /// Runs the command line against this server.
    pub async fn cli(&self, args: &[&str]) -> Cli {
        let server = [("VMCP_URL", self.url.as_str()), ("VMCP_ADMIN_URL", self.admin.as_str())];
        Cli::run_with(args, &server, self.home.path()).await
    }

    /// Sends SIGTERM and waits for the end.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.process.signal("TERM").await;
        self.process.ended().await
    }

    /// Ends it as a rollout does and starts it again at the same ports.
    pub async fn restart(&mut self) {
        let status = self.terminate().await;
        assert!(status.success(), "{status}");
        self.start_again().await;
    }

    /// Starts it again at the same ports after it was terminated.
    pub async fn start_again(&mut self) {
        self.process = serve(&self.config_file(), &self.ports, &self.env);
        self.ready().await;
    }

    async fn ready(&self) {
        let ready = format!("{}/readyz", self.admin);
        eventually("vmcp to be ready", async || {
            http_client().get(&ready).send().await.ok().filter(|r| r.status() == 200)
        })
        .await;
    }
}

/// A finished run of the command line.
#[derive(Debug)]
pub struct Cli {
    /// True if it exited with 0.
    pub success: bool,
    /// Its exit code.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Cli {
    /// Runs `vmcp` with these arguments in `folder`.
    pub async fn run(args: &[&str], folder: &Path) -> Self {
        Self::run_with(args, &[], folder).await
    }

    /// Runs `vmcp` as [`Cli::run`] does, with further variables in its environment.
    pub async fn run_with(args: &[&str], env: &[(&str, &str)], folder: &Path) -> Self {
        let mut command = Command::new(binary("vmcp"));
        command.args(args.iter().map(OsStr::new)).envs(env.iter().copied());
        let run = command.current_dir(folder).stdin(Stdio::null()).kill_on_drop(true).output();
        let output = tokio::time::timeout(crate::WAIT_TIMEOUT, run).await;
        let output = output.unwrap_or_else(|_| panic!("vmcp {args:?} does not end")).expect("running vmcp");
        Self {
            success: output.status.success(),
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

fn serve(config: &Path, ports: &[String; 2], env: &[(String, String)]) -> Process {
    let mut command = Command::new(binary("vmcp"));
    command.arg("serve").arg("--config").arg(config);
    command.args(["--listen", &ports[0], "--admin-listen", &ports[1]]);
    command.envs(env.iter().map(|(name, value)| (name, value)));
    Process::start("vmcp", &mut command)
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
