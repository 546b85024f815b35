//! One hostile client beside forty honest ones: it floods what the server keeps for clients, and costs the
//! others no failed call and little time.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use vmcp_integration::{Client, Fixture, HttpAnswer, MODERN, Vmcp};

const HOSTILE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const HONEST_CLIENTS: usize = 40;
/// Calls of each honest client in one measurement.
const CALLS: usize = 25;
/// Connections that the hostile client holds of each kind.
const HELD: usize = 60;
/// Added to the bound on time, so that a busy machine fails no test.
const SLACK: Duration = Duration::from_millis(500);

/// Lets all honest clients call side by side; returns the 99th percentile. Any failed call fails the test.
async fn p99_of_honest_calls(clients: &[Client]) -> Duration {
    let took = join_all(clients.iter().map(async |client| {
        let mut took = Vec::with_capacity(CALLS);
        for _ in 0..CALLS {
            let start = Instant::now();
            let answer = client.call_tool("echo_echo", json!({"message": "honest"})).await;
            assert!(!answer.is_failure(), "{}", answer.text);
            took.push(start.elapsed());
        }
        took
    }));
    let mut took: Vec<_> = took.await.into_iter().flatten().collect();
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

async fn connect(vmcp: &Vmcp) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind((HOSTILE, 0).into()).expect("another loopback address");
    let address = vmcp.url.trim_start_matches("http://").trim_end_matches("/mcp");
    socket.connect(address.parse().expect("an address")).await.expect("a connection")
}

/// A modern `tools/call` as bytes.
fn call(client: &Client, tool: &str, arguments: &Value) -> String {
    let params = client.stamp(json!({"name": tool, "arguments": arguments}));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json, \
         text/event-stream\r\nmcp-protocol-version: {MODERN}\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Connections with nothing, half a head, the preface of HTTP/2, half a body, and answers that are never read.
async fn hold_connections(vmcp: &Vmcp, client: &Client) -> Vec<TcpStream> {
    let whole = call(client, "echo_echo", &json!({"message": "x".repeat(50_000)}));
    let large = call(client, "echo_big", &json!({"bytes": 2_000_000}));
    let openings: [&[u8]; 5] = [b"", b"POST /mcp HTT", b"PRI", &whole.as_bytes()[..40_000], large.as_bytes()];
    let mut held = Vec::new();
    for opening in openings {
        for _ in 0..HELD {
            let mut stream = connect(vmcp).await;
            // The server may have refused the connection, which is its right.
            let _ = stream.write_all(opening).await;
            held.push(stream);
        }
    }
    held
}

/// Requests that the backend might be blamed for.
async fn provoke_the_breaker(client: &Client) {
    for _ in 0..10 {
        let hasty = json!({"tool_name": "echo_sleep", "parameters": {"ms": 1500}, "timeout": 1});
        let long = json!({"uri": format!("fixture://echo/{}", "x".repeat(20_000))});
        futures::join!(client.call_tool("optim.call_tool", hasty), client.request("resources/read", long));
    }
}

#[tokio::test]
async fn a_hostile_client_costs_forty_honest_ones_no_call_and_little_time() {
    let echo = Fixture::http("echo", "echo").start().await;
    let old = Fixture::http("old", "echo").args(["--era", "legacy", "--stateless"]).start().await;
    let settings = json!({"optimizer": {"exposure": "All"}, "server": {"maxConnections": 600}});
    let vmcp = Vmcp::new().backend(&echo).backend(&old).config(settings).start().await;
    vmcp.with_tool("old_ask").await;
    vmcp.with_tool("echo_echo").await;
    let honest: Vec<_> = (0..HONEST_CLIENTS).map(|_| vmcp.modern()).collect();
    p99_of_honest_calls(&honest).await;
    let calm = p99_of_honest_calls(&honest).await;

    let hostile = vmcp.modern().from_address(HOSTILE).declaring(json!({"elicitation": {}}));
    let held = hold_connections(&vmcp, &hostile).await;
    // Calls that ask, parked and never taken up again.
    join_all((0..HELD).map(|_| hostile.call_tool("old_ask", json!({"message": "?"})))).await;
    // Sessions with a stream each, and one with subscriptions without end.
    let mut sessions = Vec::new();
    for _ in 0..HELD {
        sessions.push(vmcp.legacy().await.from_address(HOSTILE));
    }
    let streams = join_all(sessions.iter().map(Client::listen)).await;
    let greedy = &sessions[0];
    let mut refused: Option<HttpAnswer> = None;
    for n in 0..1001 {
        let params = json!({"uri": format!("fixture://echo/{n}")});
        refused = Some(greedy.request("resources/subscribe", params).await);
    }
    assert!(refused.expect("an answer").is_failure(), "a session has a limit");

    let attack = async {
        provoke_the_breaker(&hostile).await;
        // More of everything while the honest ones call.
        hold_connections(&vmcp, &hostile).await
    };
    let (more, attacked) = futures::join!(attack, p99_of_honest_calls(&honest));
    let after = p99_of_honest_calls(&honest).await;
    for measured in [attacked, after] {
        assert!(measured < calm * 2 + SLACK, "{calm:?} before, {measured:?} beside the hostile client");
    }
    // An honest session can still subscribe, be asked, and listen.
    let session = vmcp.legacy().await;
    let params = json!({"uri": "fixture://echo/greeting"});
    session.request("resources/subscribe", params).await.result();
    let asked =
        vmcp.modern().declaring(json!({"elicitation": {}})).call_tool("old_ask", json!({"message": "?"}));
    assert_eq!(asked.await.result()["resultType"], "input_required");
    drop((held, more, streams));
}
