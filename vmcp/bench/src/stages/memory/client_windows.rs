//! Rows about windows of clients: the memory of all processes behind one `vmcp mcp-server`, and behind three
//! that share its server and the programs of 25 MCP servers.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

use super::SETTLE_TIME;
use crate::built_binaries::{fixture_binary, vmcp_binary};
use crate::progress::progress;
use crate::report::{Report, Section, Unit};
use crate::samples::Samples;
use crate::testbed::process_usage;
use crate::testbed::vmcp_process::free_address;

/// MCP servers, each a program on standard streams.
const SERVERS: usize = 25;
/// Windows that are open at once.
const WINDOWS: usize = 3;
/// Repetitions; each starts all programs.
const RUNS: usize = 3;
/// Most memory of all windows, as a multiple of the memory of one.
const MAX_RATIO: f64 = 1.3;
/// Time for an answer, and for the connections to all servers.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Interval at which the connections are counted.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Measures the memory, and adds the rows.
pub(super) async fn measure(report: &mut Report) -> Result<()> {
    progress("memory: one window of a client, and three, over 25 programs");
    let [mut one, mut three, mut called] = [(); 3].map(|()| Vec::new());
    let mut counts = (0, 0);
    for _ in 0..RUNS {
        let laptop = Laptop::new()?;
        let mut windows = vec![Window::open(&laptop).await?];
        let server = connected(windows.first_mut().context("a window")?).await?;
        sleep(SETTLE_TIME).await;
        let all = processes(server, &windows)?;
        one.push(memory(&all));
        counts.0 = all.len();
        while windows.len() < WINDOWS {
            windows.push(Window::open(&laptop).await?);
        }
        sleep(SETTLE_TIME).await;
        let all = processes(server, &windows)?;
        three.push(memory(&all));
        counts.1 = all.len();
        ensure!(counts.1 == counts.0 + WINDOWS - 1, "further programs were started: {counts:?} processes");
        for window in &mut windows {
            window
                .call("optim_call_tool", json!({"tool_name": "s1_echo", "parameters": {"message": "x"}}))
                .await?;
        }
        sleep(SETTLE_TIME).await;
        called.push(memory(&processes(server, &windows)?));
        laptop.stop().await?;
    }
    let [one, three, called] = [one, three, called].map(Samples::from_iter);
    let what = format!("{WINDOWS} windows of clients over {SERVERS} programs, all {} processes", counts.1);
    let beside = format!("one window, {} processes", counts.0);
    report.row(Section::Memory, Unit::Bytes, (what, &three), (beside, &one));
    let what = "after each window has called one server, which has a process for each then";
    report.row(Section::Memory, Unit::Bytes, (what, &called), ("before the calls", &three));
    let ratio = three.p50() / one.p50();
    report.check_target("memory of three windows, as a multiple of one", Unit::Ratio, ratio, MAX_RATIO);
    Ok(())
}

/// Returns the memory of processes: pages that they share count once.
fn memory(processes: &[u32]) -> f64 {
    // A process that has ended meanwhile has none.
    processes.iter().map(|pid| process_usage::proportional(*pid).unwrap_or_default()).sum()
}

/// Waits until the server of a window is connected to all MCP servers; returns its process.
async fn connected(window: &mut Window) -> Result<u32> {
    let started = Instant::now();
    while started.elapsed() < TIMEOUT {
        let status = window.call("status", json!({})).await?;
        let count = status.pointer("/daemon_details/connectedBackends").and_then(Value::as_u64);
        if count == Some(SERVERS as u64) {
            let pid = status.get("pid").and_then(Value::as_u64).context("a process")?;
            return Ok(pid.try_into()?);
        }
        sleep(POLL_INTERVAL).await;
    }
    bail!("not all {SERVERS} servers are connected")
}

/// A home with a configuration.
struct Laptop {
    home: TempDir,
    config: PathBuf,
}

impl Laptop {
    fn new() -> Result<Laptop> {
        let home = tempfile::tempdir()?;
        let fixture = fixture_binary()?;
        let backends: Vec<_> = (1..=SERVERS)
            .map(|number| {
                json!({"name": format!("s{number}"), "command": [fixture, "--toolset", "echo", "--era", "legacy"]})
            })
            .collect();
        let (listen, admin) = (free_address()?, free_address()?);
        let config = json!({
            "backends": backends, "server": {"listen": listen, "adminListen": admin},
            "optimizer": {"embeddings": {"provider": "none"}, "storage": {"dir": home.path().join("storage")}},
        });
        let path = home.path().join("vmcp.yaml");
        // JSON is YAML.
        std::fs::write(&path, config.to_string())?;
        Ok(Laptop { home, config: path })
    }

    /// Returns a command of vmcp in this home. A server that it starts ends by itself if this program fails.
    fn command(&self, name: &str) -> Result<Command> {
        let mut command = Command::new(vmcp_binary()?);
        command.arg(name).arg("--config").arg(&self.config).current_dir(self.home.path());
        command.env("HOME", self.home.path()).env("VMCP_END_AFTER_IDLE", "15s").kill_on_drop(true);
        for variable in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "VMCP_LISTEN", "VMCP_ADMIN_LISTEN", "VMCP_URL"]
        {
            command.env_remove(variable);
        }
        command.stderr(Stdio::null());
        Ok(command)
    }

    async fn stop(self) -> Result<()> {
        let status = self.command("stop")?.stdin(Stdio::null()).stdout(Stdio::null()).status().await?;
        ensure!(status.success(), "vmcp stop: {status}");
        Ok(())
    }
}

/// Returns the server, its programs and the windows.
fn processes(server: u32, windows: &[Window]) -> Result<Vec<u32>> {
    let mut all = process_usage::family(server);
    for window in windows {
        all.extend(process_usage::family(window.child.id().context("the window has ended")?));
    }
    Ok(all)
}

/// A window of a client; killed when dropped.
struct Window {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    last_id: u64,
}

impl Window {
    /// Opens a window, and lists the tools.
    async fn open(laptop: &Laptop) -> Result<Window> {
        let mut child = laptop.command("mcp-server")?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().context("its input")?;
        let lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        let mut window = Window { child, input, lines, last_id: 0 };
        let client = json!({"name": "bench", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        window.ask("initialize", params).await?;
        window.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
        window.ask("tools/list", json!({})).await?;
        Ok(window)
    }

    async fn send(&mut self, message: &Value) -> Result<()> {
        Ok(self.input.write_all(format!("{message}\n").as_bytes()).await?)
    }

    /// Sends a request, and returns its result.
    async fn ask(&mut self, method: &str, params: Value) -> Result<Value> {
        self.last_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})).await?;
        loop {
            let line = timeout(TIMEOUT, self.lines.next_line()).await??.context("the window has ended")?;
            let mut message: Value = serde_json::from_str(&line)?;
            if message.get("id").and_then(Value::as_u64) == Some(self.last_id) {
                let result = message.get_mut("result").map(Value::take);
                return result.with_context(|| format!("{method}: {message}"));
            }
        }
    }

    /// Calls a tool, and returns its structured content.
    async fn call(&mut self, tool: &str, arguments: Value) -> Result<Value> {
        let result = self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await?;
        ensure!(result.get("isError") != Some(&Value::Bool(true)), "{tool}: {result}");
        Ok(result.get("structuredContent").cloned().unwrap_or_default())
    }
}
