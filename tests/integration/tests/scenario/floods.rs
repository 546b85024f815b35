//! Servers that flood bytes without a message, in calls and on the streams that vmcp opens itself, and
//! connections that use up the file descriptors: other clients and probes go on.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::future::{join_all, select};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::sleep;
use vmcp_integration::{Client, Fixture, Vmcp, eventually, http_client, skipped};

const HONEST_CLIENTS: usize = 12;
const CALLS: usize = 40;
/// Hostile servers; each floods its listening stream, and answers each call with a flood.
const HOSTILE_SERVERS: usize = 4;
/// Deadline of calls. Before floods were bounded, honest calls took about as long.
const DEADLINE: Duration = Duration::from_secs(8);

/// Bytes that a hostile server repeats, by the name of its tool.
const FLOODS: [(&str, &str); 3] =
    [("comments", ":\n\n"), ("blank", "\n"), ("fields", "event: message\nid: 1\n\n")];

/// Starts a legacy server that floods, on threads of its own; returns its entry for `backends`.
fn hostile_server(name: &str) -> Value {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            axum::serve(listener, Router::new().fallback(answer)).await
        })
    });
    json!({"name": name, "url": url})
}

async fn answer(request: Request) -> Response {
    if request.method() == Method::GET {
        return events(":\n\n");
    }
    let body = to_bytes(request.into_body(), usize::MAX).await.unwrap_or_default();
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "hostile", "version": "1"},
        }),
        "tools/list" => {
            let names = FLOODS.map(|(name, _)| name).into_iter().chain(["chunks"]);
            let tools: Vec<_> =
                names.map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
            json!({"tools": tools})
        }
        "tools/call" if message["params"]["name"] == "chunks" => {
            let text = json!({"content": [{"type": "text", "text": "x".repeat(30_000)}]});
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": text}).to_string();
            let chunks: Vec<_> = answer.into_bytes().chunks(1).map(Bytes::copy_from_slice).collect();
            let body = Body::from_stream(stream::iter(chunks).map(Ok::<_, Infallible>));
            return ([(header::CONTENT_TYPE, "application/json")], body).into_response();
        }
        "tools/call" => {
            let flood = FLOODS.into_iter().find(|(name, _)| message["params"]["name"] == *name);
            return events(flood.map_or(":\n", |(_, flood)| flood));
        }
        "server/discover" => return StatusCode::BAD_REQUEST.into_response(),
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    (
        [
            (header::CONTENT_TYPE, "application/json"),
            (header::HeaderName::from_static("mcp-session-id"), "s1"),
        ],
        answer,
    )
        .into_response()
}

/// An event stream that repeats `filler` without end.
fn events(filler: &str) -> Response {
    let piece = Bytes::from(filler.repeat(16 * 1024));
    let body = Body::from_stream(stream::repeat(piece).map(Ok::<_, Infallible>));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// Lets all honest clients call side by side, with short pauses; returns how long the calls took, sorted.
async fn honest_calls(clients: &[Client]) -> Vec<Duration> {
    let calls = clients.iter().map(async |client| {
        let mut took = Vec::new();
        for _ in 0..CALLS {
            sleep(Duration::from_millis(5)).await;
            let started = Instant::now();
            let answer = client.call_tool("echo_echo", json!({"message": "honest"})).await;
            assert!(!answer.is_failure(), "{}", answer.text);
            took.push(started.elapsed());
        }
        took
    });
    let mut took: Vec<_> = join_all(calls).await.into_iter().flatten().collect();
    took.sort();
    took
}

fn p99(took: &[Duration]) -> Duration {
    took[took.len() * 99 / 100]
}

/// Asks for `/healthz` over and over.
async fn probe(vmcp: &Vmcp, slowest: &mut Duration) {
    let client = http_client();
    loop {
        let started = Instant::now();
        let answer = client.get(format!("{}/healthz", vmcp.admin)).send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
        *slowest = started.elapsed().max(*slowest);
        sleep(Duration::from_millis(20)).await;
    }
}

/// Calls hostile tools side by side, over and over. The deadline is never what ends a flood.
async fn attack(client: &Client) {
    loop {
        let calls = (0..HOSTILE_SERVERS).flat_map(|server| {
            FLOODS.map(|(tool, _)| tool).into_iter().chain(["chunks"]).map(move |tool| (server, tool))
        });
        join_all(calls.map(async |(server, tool)| {
            let answer = client.call_tool(&format!("hostile{server}_{tool}"), json!({})).await;
            // Pieces of one byte arrive slowly.
            assert!(tool == "chunks" || answer.is_failure(), "{tool}: {}", answer.text);
        }))
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twelve_honest_clients_and_probes_go_on_beside_servers_that_flood() {
    let echo = Fixture::http("echo", "echo").start().await;
    let settings = json!({"optimizer": {"exposure": "All"}, "proxy": {"toolTimeout": "8s"}});
    let mut vmcp = Vmcp::new().backend(&echo).config(settings).start().await;
    vmcp.with_tool("echo_echo").await;
    let honest: Vec<_> = (0..HONEST_CLIENTS).map(|_| vmcp.modern()).collect();
    honest_calls(&honest).await;
    let calm = honest_calls(&honest).await;

    let names: Vec<_> = (0..HOSTILE_SERVERS).map(|number| format!("hostile{number}")).collect();
    let hostile = names.iter().map(|name| hostile_server(name));
    let backends: Vec<_> = std::iter::once(echo.backend.clone()).chain(hostile).collect();
    vmcp.reconfigure(json!({"backends": backends}));
    for name in &names {
        vmcp.with_tool(&format!("{name}_chunks")).await;
    }
    let hostile = vmcp.modern();
    let mut slowest = Duration::ZERO;
    let attacked = {
        let attack = Box::pin(async { futures::join!(attack(&hostile), probe(&vmcp, &mut slowest)) });
        match select(Box::pin(honest_calls(&honest)), attack).await {
            futures::future::Either::Left((took, _)) => took,
            futures::future::Either::Right(_) => unreachable!("the attack has no end"),
        }
    };
    // An order below the seconds that floods cost before, for a busy machine. A benchmark has the ratio.
    assert!(p99(&attacked) < p99(&calm) * 10 + DEADLINE / 20, "{:?} beside {:?}", p99(&attacked), p99(&calm));
    assert!(slowest < DEADLINE / 8, "a probe waited for {slowest:?}");

    // The listening streams that flooded are named.
    eventually("the floods to be shown", async || {
        let status = vmcp.status().await;
        let backends = status["backends"].as_array()?.clone();
        let shown = backends.iter().filter(|backend| names.iter().any(|name| backend["name"] == **name));
        let floods = shown.filter(|backend| backend["lastError"].to_string().contains("floods its stream"));
        (floods.count() == HOSTILE_SERVERS).then_some(())
    })
    .await;
}

#[tokio::test]
async fn probes_are_answered_when_the_process_has_no_file_descriptors_left() {
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp = Vmcp::new().backend(&echo).start().await;
    let client = vmcp.with_tool("echo_echo").await;
    assert!(!client.call_tool("optim.find_tool", json!({"tool_description": "echo"})).await.is_failure());
    let files = std::fs::read_dir(format!("/proc/{}/fd", vmcp.process.id())).expect("its files").count();
    let limit = format!("--nofile={0}:{0}", files + 30);
    let id = vmcp.process.id().to_string();
    let Ok(limited) = Command::new("prlimit").args(["--pid", &id, &limit]).status().await else {
        return skipped("there is no prlimit");
    };
    assert!(limited.success());
    let (client_port, admin_port) = (
        vmcp.url.trim_start_matches("http://").trim_end_matches("/mcp"),
        vmcp.admin.trim_start_matches("http://"),
    );
    let mut held = Vec::new();
    for _ in 0..100 {
        for port in [client_port, admin_port] {
            held.push(TcpStream::connect(port).await.expect("the backlog takes it"));
        }
    }
    for _ in 0..20 {
        // A new connection each time, as probes make one.
        let answer = http_client().get(format!("{}/healthz", vmcp.admin)).send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
    }
    drop(held);
    eventually("clients to be served again", async || {
        let answer = vmcp.modern().call_tool("optim.find_tool", json!({"tool_description": "echo"})).await;
        (!answer.is_failure()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_slash_at_the_end_of_the_path_changes_nothing() {
    let echo = Fixture::http("echo", "echo").start().await;
    let settings = json!({"profiles": {"dev": {"servers": ["echo"]}}});
    let vmcp = Vmcp::new().backend(&echo).config(settings).start().await;
    vmcp.with_tool("echo_echo").await;
    for path in ["", "/", "/dev", "/dev/"] {
        let client = Client::modern(&format!("{}{path}", vmcp.url));
        let answer = client.request("tools/list", json!({})).await;
        assert!(!answer.is_failure(), "{path:?}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_body_in_chunks_of_one_byte_is_refused_after_some_thousand() {
    let vmcp = Vmcp::new().start().await;
    let mut connection = vmcp.connect().await;
    connection
        .send(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n")
        .await;
    connection.try_send("1\r\n \r\n".repeat(40_000).as_bytes()).await;
    let head = connection.read_head().await;
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    assert!(connection.read_to_close().await.contains("send larger chunks"));
}
