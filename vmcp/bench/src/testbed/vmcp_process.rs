//! The built `vmcp`, and the test server behind it, as processes of their own.

use std::env;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use crate::client::mcp_client::Client;

/// How long anything may take to start.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often to look whether it has.
const LOOK: Duration = Duration::from_micros(500);

/// A running test server.
pub(crate) struct Fixture {
    /// Its process.
    pub(crate) child: Child,
    /// Its entry in `backends`.
    pub(crate) backend: Value,
}

impl Fixture {
    /// Starts one that offers a toolset, and waits until it listens.
    pub(crate) async fn start(toolset: &str) -> Result<Fixture> {
        let mut command = Command::new(fixture_binary()?);
        command.args(["--transport", "http", "--name", "quick", "--toolset", toolset]).stdout(Stdio::piped());
        let mut child = spawn(&mut command)?;
        let mut lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        while let Some(line) = lines.next_line().await? {
            if let Some((_, url)) = line.split_once("listening on ") {
                return Ok(Fixture { child, backend: json!({"name": "quick", "url": url}) });
            }
        }
        bail!("the test server ended")
    }
}

/// A backend that accepts connections and never answers, until dropped.
pub(crate) struct Hung {
    /// Its entry in `backends`.
    pub(crate) backend: Value,
    _accepting: AbortOnDropHandle<()>,
}

impl Hung {
    /// Opens its port.
    pub(crate) async fn start() -> Result<Hung> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let backend = json!({"name": "hung", "url": format!("http://{}/mcp", listener.local_addr()?)});
        let accepting = tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok(connection) = listener.accept().await {
                held.push(connection);
            }
        });
        Ok(Hung { backend, _accepting: AbortOnDropHandle::new(accepting) })
    }
}

/// A running `vmcp serve`; killed when dropped.
pub(crate) struct Vmcp {
    /// Its process.
    pub(crate) child: Child,
    /// The client port.
    pub(crate) clients: SocketAddr,
    admin: SocketAddr,
    started: Instant,
    _home: TempDir,
}

impl Vmcp {
    /// Starts it over these backends, with keyword search alone and an empty cache.
    pub(crate) fn spawn(backends: &[&Value]) -> Result<Vmcp> {
        Vmcp::configured(json!({"backends": backends, "optimizer": {"embeddings": {"provider": "none"}}}))
    }

    /// Starts it with this configuration and an empty cache.
    pub(crate) fn configured(mut config: Value) -> Result<Vmcp> {
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
        Ok(Vmcp { child: spawn(&mut command)?, clients, admin, started, _home: home })
    }

    /// Time from the start to the first 200 of `/readyz`.
    pub(crate) async fn ready(&self) -> Result<Duration> {
        loop {
            if let Ok(mut client) = Client::connect(self.admin).await
                && client.get("/readyz").await?.is_success()
            {
                return Ok(self.started.elapsed());
            }
            self.look_again("/readyz").await?;
        }
    }

    /// Time from the start to the first `tools/list` with so many tools of backends, asked again and again.
    pub(crate) async fn complete_list(&self, tools: usize) -> Result<Duration> {
        let mut client = loop {
            match Client::connect(self.clients).await {
                Ok(client) => break client,
                Err(_) => self.look_again("the client port").await?,
            }
        };
        loop {
            let answer: Value = serde_json::from_slice(&client.request("tools/list", json!({})).await?)?;
            let listed = answer.pointer("/result/tools").and_then(Value::as_array).context("a list")?;
            let named = listed.iter().filter_map(|tool| tool.get("name")?.as_str());
            if named.filter(|name| !name.starts_with("optim")).count() == tools {
                return Ok(self.started.elapsed());
            }
            self.look_again("a complete list").await?;
        }
    }

    async fn look_again(&self, what: &str) -> Result<()> {
        ensure!(self.started.elapsed() < PATIENCE, "waited in vain for {what}");
        sleep(LOOK).await;
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

fn spawn(command: &mut Command) -> Result<Child> {
    let child = command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn();
    child.with_context(|| format!("starting {}", command.as_std().get_program().display()))
}

/// `VMCP_BIN`, else the one beside this program.
fn vmcp_binary() -> Result<PathBuf> {
    built_binary("VMCP_BIN", "vmcp")
}

/// `VMCP_FIXTURE_BIN`, else the one beside this program.
fn fixture_binary() -> Result<PathBuf> {
    built_binary("VMCP_FIXTURE_BIN", "vmcp-fixture")
}

/// Returns the path in `variable`, else the binary of `package` that cargo built into this program's folder.
fn built_binary(variable: &str, package: &str) -> Result<PathBuf> {
    let path = match env::var_os(variable) {
        Some(path) => path.into(),
        None => env::current_exe()?.with_file_name(package),
    };
    ensure!(path.exists(), "{} is missing: run cargo build --release -p {package}", path.display());
    Ok(path)
}

/// A port that nobody uses just now.
fn free_address() -> Result<SocketAddr> {
    Ok(StdListener::bind("127.0.0.1:0")?.local_addr()?)
}
