//! The layers of the client port: hosts and origins, browsers, limits by client and of the process.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::time::{Duration, sleep, timeout};
use vmcp_integration::{Fixture, MODERN, Vmcp, WAIT_TIMEOUT, eventually, http_client};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// Returns the answer to `request`, which asks for the connection to be closed.
async fn exchange(vmcp: &Vmcp, request: &str) -> String {
    let mut stream = vmcp.connect().await;
    stream.send(request.as_bytes()).await;
    stream.read_to_close().await
}

/// Returns the head of a POST whose body has `length` bytes.
fn head(length: usize) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: */*\r\ncontent-length: {length}\r\n\r\n"
    )
}

#[tokio::test]
async fn the_host_is_checked_wherever_it_stands() {
    let vmcp = Vmcp::new().start().await;
    let ask = async |line: &str, hosts: &str| {
        exchange(&vmcp, &format!("{line} HTTP/1.1\r\n{hosts}connection: close\r\n\r\n")).await
    };
    for (line, hosts, status) in [
        ("GET /mcp", "host: localhost\r\n", "405"),
        ("GET /mcp", "", "400"),
        ("GET /mcp", "host: localhost\r\nhost: localhost\r\n", "400"),
        ("GET /mcp", "host: caf\u{e9}\r\n", "400"),
        ("GET /mcp", "host: evil.example\r\n", "403"),
        ("GET http://evil.example/mcp", "host: localhost\r\n", "403"),
        ("GET http://localhost/mcp", "host: localhost\r\n", "405"),
    ] {
        let answer = ask(line, hosts).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{line} {hosts}: {answer}");
    }
    assert!(vmcp.metrics().await.contains(r#"vmcp_client_requests_refused_total{reason="host"} 5"#));
}

#[tokio::test]
async fn a_page_of_an_allowed_origin_may_ask_and_read() {
    let vmcp =
        Vmcp::new().config(json!({"server": {"allowedOrigins": ["https://app.example"]}})).start().await;
    let preflight = async |origin: &str| {
        let request = http_client().request(Method::OPTIONS, &vmcp.url).header("origin", origin);
        let asked = request
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "content-type,mcp-protocol-version,mcp-param-region");
        asked.send().await.expect("an answer")
    };
    for origin in ["https://app.example", "http://localhost:6274"] {
        let answer = preflight(origin).await;
        let header = |name: &str| answer.headers()[name].to_str().expect("text").to_owned();
        assert_eq!(answer.status(), 204, "{origin}");
        assert_eq!(header("access-control-allow-origin"), origin);
        assert_eq!(
            header("access-control-allow-headers"),
            "content-type,mcp-protocol-version,mcp-param-region"
        );
        assert!(header("access-control-allow-methods").contains("DELETE"));
        let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "page", "version": "1"}}});
        let post = http_client().post(&vmcp.url).header("origin", origin).header("accept", "*/*");
        let answer = post.json(&initialize).send().await.expect("an answer");
        let header = |name: &str| answer.headers()[name].to_str().expect("text").to_owned();
        assert_eq!(answer.status(), 200);
        assert_eq!(header("access-control-allow-origin"), origin);
        assert!(header("access-control-expose-headers").contains("mcp-session-id"));
        assert!(header("vary").contains("origin"));
    }
    let refused = preflight("https://evil.example").await;
    assert_eq!(refused.status(), 403);
    assert!(!refused.headers().contains_key("access-control-allow-origin"));
    let plain = http_client().request(Method::OPTIONS, &vmcp.url).send().await.expect("an answer");
    assert_eq!(
        (plain.status(), &plain.headers()["allow"].to_str().unwrap()[..4]),
        (StatusCode::NO_CONTENT, "POST")
    );
}

#[tokio::test]
async fn one_client_holds_no_more_requests_than_its_share() {
    let vmcp = Vmcp::new().config(json!({"server": {"maxRequestsPerClient": 2}})).start().await;
    let session = vmcp.legacy().await;
    let mut held = [vmcp.connect().await, vmcp.connect().await];
    for stream in &mut held {
        stream.send(format!("{}{{", head(100)).as_bytes()).await;
    }
    let refused = r#"vmcp_client_requests_refused_total{reason="client_requests"} "#;
    eventually("a refusal", async || {
        let answer = http_client().post(&vmcp.url).header("accept", "*/*");
        let answer = answer.header("content-type", "application/json").body(PING).send().await.ok()?;
        if answer.status() != 429 {
            return None;
        }
        assert_eq!(answer.headers()["retry-after"], "1");
        let text = answer.text().await.expect("a body");
        assert!(text.contains("server.maxRequestsPerClient"), "{text}");
        Some(())
    })
    .await;
    assert!(vmcp.metric(refused).await > 0);
    drop(held);
    eventually("room again", async || (session.request("ping", json!({})).await.status == 200).then_some(()))
        .await;
}

#[tokio::test]
async fn half_sent_bodies_stay_within_the_byte_budget() {
    const BUDGET: u64 = 4 << 20;
    let limits = json!({"server": {"maxBufferedBytes": BUDGET, "receiveTimeout": "2m"}});
    let vmcp = Vmcp::new().config(limits).start().await;
    let session = vmcp.legacy().await;
    let mut open = Vec::new();
    for _ in 0..200 {
        let mut stream = vmcp.connect().await;
        // A refused body is read and dropped, or its connection is closed, so this does not block.
        stream.try_send(format!("{}{}", head(200_000), "x".repeat(60_000)).as_bytes()).await;
        open.push(stream);
    }
    let refused = r#"vmcp_client_requests_refused_total{reason="buffered_bytes"} "#;
    eventually("refusals", async || (vmcp.metric(refused).await > 50).then_some(())).await;
    let buffered = vmcp.metric("vmcp_buffered_bytes ").await;
    assert!((BUDGET / 2..=BUDGET).contains(&buffered), "{buffered}");
    let mut answer = open.pop().expect("the last one");
    let refusal = answer.read_head().await;
    assert!(refusal.starts_with("HTTP/1.1 503") && refusal.contains("retry-after: 1"), "{refusal}");
    drop((answer, open));
    eventually("room again", async || (session.request("ping", json!({})).await.status == 200).then_some(()))
        .await;
    eventually("nothing held", async || (vmcp.metric("vmcp_buffered_bytes ").await == 0).then_some(())).await;
}

#[tokio::test]
async fn a_connection_that_rested_is_served_as_before() {
    let vmcp = Vmcp::new().start().await;
    let session = vmcp.legacy().await.session.expect("a session");
    let request = head(PING.len()).replace("\r\n\r\n", &format!("\r\nmcp-session-id: {session}\r\n\r\n"));
    let (first, second) = request.split_at(40);
    let mut stream = vmcp.connect().await;
    for _ in 0..3 {
        stream.send(first.as_bytes()).await;
        // Longer than the rest after which a connection gives up its buffers.
        sleep(Duration::from_millis(300)).await;
        stream.send(second.as_bytes()).await;
        sleep(Duration::from_millis(300)).await;
        stream.send(PING.as_bytes()).await;
        let head = stream.read_head().await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let length = head.split_once("content-length: ").and_then(|(_, rest)| rest.split("\r\n").next());
        stream.read(length.expect("a length").parse().expect("a number")).await;
        sleep(Duration::from_millis(300)).await;
    }
}

#[tokio::test]
async fn http2_connections_without_a_request_are_closed() {
    let vmcp = Vmcp::new().config(json!({"server": {"receiveTimeout": "1s"}})).start().await;
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let preface = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings].concat();
    for sent in [&b"PRI"[..], &preface] {
        let mut stream = vmcp.connect().await;
        stream.send(sent).await;
        stream.read_to_close().await;
    }
}

#[tokio::test]
async fn an_http2_answer_left_unread_is_given_up_and_others_go_on() {
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp = Vmcp::new().backend(&echo).config(json!({"server": {"writeTimeout": "1s"}})).start().await;
    let client = vmcp.with_tool("echo_echo").await;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    // The client grants no window to any stream.
    let handshake =
        builder.initial_stream_window_size(0).handshake(TokioIo::new(vmcp.connect().await.into_stream()));
    let (mut sender, connection) = handshake.await.expect("HTTP/2");
    let connection = tokio::spawn(connection);
    let params = client.stamp(json!({"name": "echo_big", "arguments": {"bytes": 1_000_000}}));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let request = hyper::Request::post(&vmcp.url)
        .header("content-type", "application/json")
        .header("accept", "*/*")
        .header("mcp-protocol-version", MODERN)
        .header("mcp-method", "tools/call")
        .header("mcp-name", "echo_big")
        .body(Full::new(Bytes::from(body)))
        .expect("a request");
    let unread = sender.send_request(request).await.expect("the head of the answer");
    assert_eq!(unread.status(), 200);
    eventually("a stalled stream", async || {
        (vmcp.metric("vmcp_client_stalls_total ").await == 1).then_some(())
    })
    .await;
    let ended = timeout(WAIT_TIMEOUT, unread.into_body().collect()).await.expect("the stream ends");
    assert!(ended.is_err(), "the answer was cut off");
    assert!(!connection.is_finished(), "the connection and its other streams live on");
    client.call_tool("echo_echo", json!({"message": "hi"})).await.result();
}

#[tokio::test]
async fn a_stream_of_events_goes_to_clients_that_accept_one() {
    let vmcp = Vmcp::new().start().await;
    let client = vmcp.modern();
    let params = client.stamp(json!({"notifications": {"toolsListChanged": true}}));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params});
    let listen = async |accept: &str| {
        let post = http_client().post(&vmcp.url).header("accept", accept).json(&body);
        let post = post.header("mcp-protocol-version", MODERN);
        post.header("mcp-method", "subscriptions/listen").send().await.expect("an answer").status()
    };
    assert_eq!(listen("application/json").await, 406);
    assert_eq!(listen("application/json, text/event-stream").await, 200);
}
