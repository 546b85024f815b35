//! The built `vmcp`, and the test server behind it, as processes of their own.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::built_binaries::{spawn, vmcp_binary};
use crate::client::mcp_client::McpClient;

/// How long anything may take to start.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// How often to look whether it has.
const START_POLL_INTERVAL: Duration = Duration::from_micros(500);

/// A running `vmcp serve`; killed when dropped.
pub(crate) struct VmcpProcess {
    /// Its process.
    pub(crate) child: Child,
    /// The client port.
    pub(crate) clients: SocketAddr,
    admin: SocketAddr,
    started: Instant,
    _home: TempDir,
}

impl VmcpProcess {
    /// Starts it over these backends, with keyword search alone and an empty cache.
    pub(crate) fn spawn(backends: &[&Value]) -> Result<VmcpProcess> {
        VmcpProcess::configured(
            json!({"backends": backends, "optimizer": {"embeddings": {"provider": "none"}}}),
        )
    }

    /// Starts it with this configuration and an empty cache.
    pub(crate) fn configured(mut config: Value) -> Result<VmcpProcess> {
        let home = tempfile::tempdir()?;
        let file = home.path().join("vmcp.yaml");
        let optimizer =
            config.pointer_mut("/optimizer").and_then(Value::as_object_mut).context("optimizer")?;
        optimizer.insert("storage".into(), json!({"dir": home.path().join("cache")}));
        // JSON is YAML.
        std::fs::write(&file, config.to_string())?;
        let (clients, admin) = (free_address()?, free_address()?);
        let mut command = Command::new(vmcp_binary()?);
        command.arg("serve").arg("--config").arg(file).arg("--listen").arg(clients.to_string());
        command.arg("--admin-listen").arg(admin.to_string()).stdout(Stdio::null());
        let started = Instant::now();
        Ok(VmcpProcess { child: spawn(&mut command)?, clients, admin, started, _home: home })
    }

    /// Time from the start to the first 200 of `/readyz`.
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

    /// Time from the start to the first `tools/list` with so many tools of backends, asked again and again.
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

    /// Its number.
    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.id().context("the process has ended")
    }

    /// Ends it.
    pub(crate) async fn end(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }
}

/// A port that nobody uses just now.
fn free_address() -> Result<SocketAddr> {
    Ok(StdListener::bind("127.0.0.1:0")?.local_addr()?)
}
