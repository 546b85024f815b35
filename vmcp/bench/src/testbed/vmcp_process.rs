//! The built `vmcp` as a process.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::built_binaries::{counted_binary, spawn, vmcp_binary};
use crate::client::mcp_client::McpClient;
use crate::counted::AllocationReader;

/// Name of the configuration in the folder of a process.
const CONFIG_FILE: &str = "vmcp.yaml";
/// Time that the process has to reach a state.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// Interval at which the state is polled; short, because it bounds the precision of a start time.
const START_POLL_INTERVAL: Duration = Duration::from_micros(500);

/// A running `vmcp serve`; killed when dropped.
pub(crate) struct VmcpProcess {
    /// The process.
    pub(crate) child: Child,
    /// Address for clients.
    pub(crate) clients: SocketAddr,
    admin: SocketAddr,
    started: Instant,
    home: TempDir,
}

impl VmcpProcess {
    /// Starts vmcp over these backends, without embeddings and with an empty cache.
    pub(crate) fn spawn(backends: &[&Value]) -> Result<VmcpProcess> {
        VmcpProcess::configured(
            json!({"backends": backends, "optimizer": {"embeddings": {"provider": "none"}}}),
        )
    }

    /// Starts vmcp with this configuration and an empty cache.
    pub(crate) fn configured(config: Value) -> Result<VmcpProcess> {
        VmcpProcess::start(Command::new(vmcp_binary()?), config)
    }

    /// Starts vmcp likewise, in a process that serves the counts of its allocations at `counts`.
    pub(crate) fn counted(config: Value, counts: SocketAddr) -> Result<VmcpProcess> {
        let mut command = Command::new(counted_binary()?);
        command.envs([AllocationReader::setting(counts)]);
        VmcpProcess::start(command, config)
    }

    fn start(command: Command, mut config: Value) -> Result<VmcpProcess> {
        let home = tempfile::tempdir()?;
        let optimizer =
            config.pointer_mut("/optimizer").and_then(Value::as_object_mut).context("optimizer")?;
        optimizer.insert("storage".into(), json!({"dir": home.path().join("cache")}));
        // JSON is YAML.
        std::fs::write(home.path().join(CONFIG_FILE), config.to_string())?;
        VmcpProcess::serve(command, home)
    }

    /// Starts vmcp with the configuration and the cache in a folder.
    fn serve(mut command: Command, home: TempDir) -> Result<VmcpProcess> {
        let (clients, admin) = (free_address()?, free_address()?);
        command.arg("serve").arg("--config").arg(home.path().join(CONFIG_FILE));
        command.arg("--listen").arg(clients.to_string());
        command.arg("--admin-listen").arg(admin.to_string()).stdout(Stdio::null());
        let started = Instant::now();
        Ok(VmcpProcess { child: spawn(&mut command)?, clients, admin, started, home })
    }

    /// Ends the process as a rollout does, and starts it again with all that it has saved.
    pub(crate) async fn restarted(mut self) -> Result<VmcpProcess> {
        kill(Pid::from_raw(self.pid()?.try_into()?), Signal::SIGTERM)?;
        self.child.wait().await?;
        VmcpProcess::serve(Command::new(vmcp_binary()?), self.home)
    }

    /// Returns the time from the start to the first 200 of `/readyz`.
    pub(crate) async fn ready(&self) -> Result<Duration> {
        loop {
            if let Ok(mut client) = McpClient::connect(self.admin).await
                && client.get("/readyz").await?.is_success()
            {
                return Ok(self.started.elapsed());
            }
            self.wait_for_next_poll("/readyz").await?;
        }
    }

    /// Returns the time from the start to the first `tools/list` with this many tools of backends.
    pub(crate) async fn complete_list(&self, tools: usize) -> Result<Duration> {
        let mut client = loop {
            match McpClient::connect(self.clients).await {
                Ok(client) => break client,
                Err(_) => self.wait_for_next_poll("the client port").await?,
            }
        };
        loop {
            let answer: Value = serde_json::from_slice(&client.request("tools/list", json!({})).await?)?;
            let listed = answer.pointer("/result/tools").and_then(Value::as_array).context("a list")?;
            let named = listed.iter().filter_map(|tool| tool.get("name")?.as_str());
            if named.filter(|name| !name.starts_with("optim")).count() == tools {
                return Ok(self.started.elapsed());
            }
            self.wait_for_next_poll("a complete list").await?;
        }
    }

    async fn wait_for_next_poll(&self, what: &str) -> Result<()> {
        ensure!(self.started.elapsed() < START_TIMEOUT, "waited in vain for {what}");
        sleep(START_POLL_INTERVAL).await;
        Ok(())
    }

    /// Returns the value of a series of `/metrics`, such as `name_total{label="value"}`.
    pub(crate) async fn metric(&self, series: &str) -> Result<f64> {
        // An error means that a provider is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build()?;
        let answer = client.get(format!("http://{}/metrics", self.admin)).send().await?.error_for_status()?;
        let text = answer.text().await?;
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let value = value.with_context(|| format!("no {series} at /metrics"))?;
        Ok(value.split(' ').next().unwrap_or(value).parse()?)
    }

    /// Returns the id of the process.
    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.id().context("the process has ended")
    }

    /// Kills the process.
    pub(crate) async fn end(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }
}

/// Returns a free port. Another process could take it before the one it is meant for, which would then fail
/// to start.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(StdListener::bind("127.0.0.1:0")?.local_addr()?)
}
