//! Stage `hostile`: latency of forty honest clients beside a client that floods each resource of the server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Builder;
use tokio::time::sleep;
use vmcp_wire::era::Era;
use vmcp_wire::methods;

use crate::client::replay_client::{Endpoint, PreparedRequest, ReplayClient};
use crate::progress::progress;
use crate::report::{Report, Row, Section, Unit, format_value};
use crate::roles::served_content::TOOL_COUNT;
use crate::samples::Samples;
use crate::testbed::{ANY_LOCAL_PORT, Testbed};

const HONEST_CLIENTS: u64 = 40;
/// Pause of an honest client between its calls: forty use a fraction of a core, so that waiting shows.
const HONEST_PAUSE: Duration = Duration::from_millis(20);
/// Rounds without the attack and with it, in turns, and the calls of each client in one.
const ROUNDS: usize = 5;
const CALLS: usize = 100;
/// Address of the hostile client: limits count it apart from the honest ones.
const HOSTILE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// Connections that the hostile client holds of each kind, and opens and leaves in each of its rounds.
const HELD: usize = 100;
const OPENED: usize = 30;
/// Pause between the attack's rounds, without which its own work takes the processor from everyone.
const HOSTILE_PAUSE: Duration = Duration::from_millis(10);
/// Highest p99 beside the attack, as a multiple of the p99 without it.
const MAX_RATIO: f64 = 2.0;

/// Measures the honest clients with and without the attack, and adds the row.
pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    progress("hostile: forty honest clients and one hostile");
    let mut testbed = Testbed::new(ANY_LOCAL_PORT).await?;
    testbed.start_vmcp(json!({
        "backends": [testbed.entry("dual")],
        "optimizer": {"embeddings": {"provider": "none"}, "exposure": "All"},
    }))?;
    testbed.vmcp()?.complete_list(TOOL_COUNT).await?;
    let endpoint = Endpoint { address: testbed.vmcp()?.clients, path: "/mcp".to_owned() };
    let mut clients = honest_clients(&endpoint, HONEST_CLIENTS).await?;
    let (mut calm, mut attacked) = (Samples::default(), Samples::default());
    let mut rounds = 0;
    for _ in 0..ROUNDS {
        calm.extend([calls(&mut clients).await?.p99()]);
        let attack = Attack::start(endpoint.address)?;
        attacked.extend([calls(&mut clients).await?.p99()]);
        rounds += attack.end();
    }
    ensure!(rounds > 0, "the attack did not begin");
    let ratio = attacked.p50() / calm.p50();
    report.check_target("p99 beside a hostile client: p99 without", Unit::Ratio, ratio, MAX_RATIO);
    report.add(
        Section::Hostile,
        Row {
            what: format!(
                "call of {HONEST_CLIENTS} honest clients beside a hostile one, {rounds} rounds of its attack"
            ),
            n: ROUNDS * CALLS * HONEST_CLIENTS as usize,
            p99: format_value(attacked.p50(), Unit::Seconds),
            yardstick: "without it, p99".to_owned(),
            compared: Some((format_value(calm.p50(), Unit::Seconds), ratio)),
            ..Row::default()
        },
    );
    testbed.end().await
}

/// Connects honest clients, each with a call of 1 KB, and warms them up by a round of calls.
pub(super) async fn honest_clients(
    endpoint: &Endpoint,
    count: u64,
) -> Result<Vec<(ReplayClient, PreparedRequest)>> {
    let mut clients = Vec::new();
    for number in 0..count {
        let client = ReplayClient::connect(endpoint, Era::Modern, number).await?;
        let call = client.prepare(methods::TOOLS_CALL, r#"{"name":"dual_result_1k","arguments":{}}"#)?;
        clients.push((client, call));
    }
    calls(&mut clients).await?;
    Ok(clients)
}

/// Lets all honest clients call side by side. Any failed call is an error.
pub(super) async fn calls(clients: &mut [(ReplayClient, PreparedRequest)]) -> Result<Samples> {
    let took = clients.iter_mut().map(async |(client, call)| {
        let mut took = Vec::with_capacity(CALLS);
        for _ in 0..CALLS {
            sleep(HONEST_PAUSE).await;
            let started = Instant::now();
            let received = client.send(call).await.context("an honest call")?;
            ensure!(received.status == 200, "an honest call was answered with HTTP {}", received.status);
            took.push(started.elapsed().as_secs_f64());
        }
        anyhow::Ok(took)
    });
    let mut samples = Samples::default();
    samples.extend(try_join_all(took).await?.into_iter().flatten());
    Ok(samples)
}

/// The hostile client, on a thread of its own.
struct Attack {
    ends: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    thread: thread::JoinHandle<()>,
}

impl Attack {
    fn start(server: SocketAddr) -> Result<Attack> {
        let (ends, rounds) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (seen, counted) = (Arc::clone(&ends), Arc::clone(&rounds));
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                let _held = open(server, HELD).await;
                while !seen.load(Ordering::Relaxed) {
                    // Opened, used and left at once.
                    drop(open(server, OPENED).await);
                    counted.fetch_add(1, Ordering::Relaxed);
                    sleep(HOSTILE_PAUSE).await;
                }
            });
        });
        Ok(Attack { ends, rounds, thread })
    }

    /// Ends the attack; returns the number of its rounds.
    fn end(self) -> u64 {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        self.rounds.load(Ordering::Relaxed)
    }
}

/// Opens connections with nothing, half a head, a preface of HTTP/2, half a body, calls whose answers are
/// never read, and arguments as deep and long as they may be.
async fn open(server: SocketAddr, count: usize) -> Vec<TcpStream> {
    let large = call("dual_result_1m", "{}");
    let deep = call("dual_result_1k", &format!(r#"{{"a":{}0{}}}"#, "[".repeat(100), "]".repeat(100)));
    let long = call("dual_result_1k", &format!(r#"{{"a":"{}"}}"#, "x".repeat(50_000)));
    let half = long.get(..long.len() / 2).unwrap_or_default();
    let openings = ["", "POST /mcp HTT", "PRI", half, &large, &deep, &long];
    let mut held = Vec::new();
    for opening in openings.into_iter().cycle().take(count) {
        // The server may refuse the connection, which is its right.
        if let Ok(mut stream) = connect(server).await {
            let _ = stream.write_all(opening.as_bytes()).await;
            held.push(stream);
        }
    }
    held
}

async fn connect(server: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((HOSTILE, 0).into())?;
    socket.connect(server).await
}

/// Returns a `tools/call` of a modern client as bytes of HTTP.
pub(super) fn call(tool: &str, arguments: &str) -> String {
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"hostile","version":"1"}}"#;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},"_meta":{meta}}}}}"#
    );
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json, \
         text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}
