//! Backends for vmcp as a process of its own: the test server `vmcp-fixture`, a relay that is slow to
//! connect, and a server that hangs.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio_util::task::AbortOnDropHandle;

use crate::built_binaries::{fixture_binary, spawn};

/// A running `vmcp-fixture`; killed when dropped.
pub(crate) struct FixtureServer {
    /// Process of the server.
    pub(crate) child: Child,
    /// Entry for `backends` of `vmcp.yaml`.
    pub(crate) backend: Value,
}

impl FixtureServer {
    /// Starts a server with this toolset, and waits until it listens.
    pub(crate) async fn start(toolset: &str) -> Result<FixtureServer> {
        let mut command = Command::new(fixture_binary()?);
        command.args(["--transport", "http", "--name", "quick", "--toolset", toolset]).stdout(Stdio::piped());
        let mut child = spawn(&mut command)?;
        let mut lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        while let Some(line) = lines.next_line().await? {
            if let Some((_, url)) = line.split_once("listening on ") {
                return Ok(FixtureServer { child, backend: json!({"name": "quick", "url": url}) });
            }
        }
        bail!("the test server ended")
    }

    /// Returns the id of the process.
    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.id().context("the process has ended")
    }
}

/// A relay to a test server that holds each new connection for a while; ends when dropped.
pub(crate) struct SlowBackend {
    /// Entry for `backends` of `vmcp.yaml`.
    pub(crate) backend: Value,
    _accepting: AbortOnDropHandle<()>,
}

impl SlowBackend {
    /// Opens its port. Connections go to `server` after `delay`.
    pub(crate) async fn start(name: &str, server: &FixtureServer, delay: Duration) -> Result<SlowBackend> {
        let url = server.backend.get("url").and_then(Value::as_str).context("the server's address")?;
        let mut url = url::Url::parse(url)?;
        let upstream = *url.socket_addrs(|| None)?.first().context("the server's address")?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        if url.set_port(Some(listener.local_addr()?.port())).is_err() {
            bail!("{url} has no port");
        }
        let accepting = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    let mut server = TcpStream::connect(upstream).await?;
                    copy_bidirectional(&mut client, &mut server).await
                });
            }
        });
        let backend = json!({"name": name, "url": url.as_str()});
        Ok(SlowBackend { backend, _accepting: AbortOnDropHandle::new(accepting) })
    }
}

/// A backend that accepts connections and never answers, until dropped.
pub(crate) struct HungBackend {
    /// Entry for `backends` of `vmcp.yaml`.
    pub(crate) backend: Value,
    _accepting: AbortOnDropHandle<()>,
}

impl HungBackend {
    /// Opens its port. Connections are held, so that no client sees them closed.
    pub(crate) async fn start() -> Result<HungBackend> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let backend = json!({"name": "hung", "url": format!("http://{}/mcp", listener.local_addr()?)});
        let accepting = tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok(connection) = listener.accept().await {
                held.push(connection);
            }
        });
        Ok(HungBackend { backend, _accepting: AbortOnDropHandle::new(accepting) })
    }
}
