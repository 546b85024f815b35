//! One hostile client beside forty honest ones: it floods what the server keeps for clients, and costs the
//! others no failed call. The benchmark's stage `hostile` measures the time that it costs them.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::{join_all, select};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use vmcp_integration::{Client, Fixture, MODERN, Vmcp};

const HOSTILE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const HONEST_CLIENTS: usize = 40;
/// Calls of each honest client.
const CALLS: usize = 12;
/// Connections, calls or sessions that the hostile client holds of each kind.
const HELD: usize = 30;

/// Lets all honest clients call side by side. Any failed call fails the test.
async fn honest_calls(clients: &[Client]) {
    let calls = clients.iter().map(async |client| {
        for _ in 0..CALLS {
            let answer = client.call_tool("echo_echo", json!({"message": "honest"})).await;
            assert!(!answer.is_failure(), "{}", answer.text);
        }
    });
    join_all(calls).await;
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

/// Holds connections with nothing, half a head, a preface of HTTP/2, half a body, and answers never read.
async fn hold_connections(vmcp: &Vmcp, client: &Client) -> Vec<TcpStream> {
    let whole = call(client, "echo_echo", &json!({"message": "x".repeat(50_000)}));
    let large = call(client, "echo_big", &json!({"bytes": 2_000_000}));
    let openings: [&[u8]; 5] = [b"", b"POST /mcp HTT", b"PRI", &whole.as_bytes()[..40_000], large.as_bytes()];
    let mut held = Vec::new();
    for opening in openings {
        for _ in 0..HELD {
            let mut stream = connect(vmcp).await;
            // The server may refuse the connection, which is its right.
            let _ = stream.write_all(opening).await;
            held.push(stream);
        }
    }
    held
}

/// Leaves calls parked that ask something, and sessions with a stream each, one of which subscribes without
/// end.
async fn hold_places(vmcp: &Vmcp, client: &Client) -> Vec<(Client, reqwest::Response)> {
    join_all((0..HELD).map(|_| client.call_tool("old_ask", json!({"message": "?"})))).await;
    let mut sessions = Vec::new();
    for _ in 0..HELD {
        let session = vmcp.legacy().await.from_address(HOSTILE);
        let stream = session.listen().await;
        sessions.push((session, stream));
    }
    let (greedy, _) = &sessions[0];
    let refused = futures::stream::iter(0..1001)
        .map(|n| greedy.request("resources/subscribe", json!({"uri": format!("fixture://echo/{n}")})))
        .buffer_unordered(32)
        .any(async |answer| answer.is_failure());
    assert!(refused.await, "a session has a limit");
    sessions
}

/// Goes before the answer comes.
async fn leave(client: &Client) {
    let sleep = client.call_tool("echo_sleep", json!({"ms": 300}));
    drop(tokio::time::timeout(Duration::from_millis(50), sleep).await);
}

/// Sends requests that the backend might be blamed for, over and over, and opens and leaves connections.
async fn attack(vmcp: &Vmcp, client: &Client) {
    loop {
        let hasty = json!({"tool_name": "echo_sleep", "parameters": {"ms": 1500}, "timeout": 1});
        let long = json!({"uri": format!("fixture://echo/{}", "x".repeat(20_000))});
        let traced = json!({"name": "echo_echo", "arguments": {"message": "traced"}, "_meta": {
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "baggage": format!("key={}", "x".repeat(20_000)),
        }});
        futures::join!(
            client.call_tool("optim.call_tool", hasty),
            client.request("resources/read", long),
            client.request("tools/call", traced),
            hold_connections(vmcp, client),
            leave(client),
        );
    }
}

#[tokio::test]
async fn a_hostile_client_costs_forty_honest_ones_no_call() {
    let echo = Fixture::http("echo", "echo").start().await;
    let old = Fixture::http("old", "echo").args(["--era", "legacy", "--stateless"]).start().await;
    let settings = json!({"optimizer": {"exposure": "All"}, "server": {"maxConnections": 1000}});
    let vmcp = Vmcp::new().backend(&echo).backend(&old).config(settings).start().await;
    vmcp.with_tool("old_ask").await;
    vmcp.with_tool("echo_echo").await;
    let honest: Vec<_> = (0..HONEST_CLIENTS).map(|_| vmcp.modern()).collect();

    let hostile = vmcp.modern().from_address(HOSTILE).declaring(json!({"elicitation": {}}));
    let held = (hold_connections(&vmcp, &hostile).await, hold_places(&vmcp, &hostile).await);
    let (attack, calls) = (std::pin::pin!(attack(&vmcp, &hostile)), std::pin::pin!(honest_calls(&honest)));
    select(attack, calls).await;
    let opened = vmcp.metrics().await;
    assert!(opened.contains("vmcp_backend_up{backend=\"echo\"} 1"), "{opened}");
    // An honest session can still subscribe, be asked, and listen.
    let session = vmcp.legacy().await;
    session.request("resources/subscribe", json!({"uri": "fixture://echo/greeting"})).await.result();
    let asks = vmcp.modern().declaring(json!({"elicitation": {}}));
    let asked = asks.call_tool("old_ask", json!({"message": "?"})).await;
    assert_eq!(asked.result()["resultType"], "input_required");
    drop(held);
}
