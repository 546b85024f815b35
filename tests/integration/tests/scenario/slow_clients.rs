//! Slow clients: clients that send or read too slowly, and too many at once, are bounded, told where that is
//! possible, and counted.

use serde_json::json;
use vmcp_integration::{Fixture, MODERN, Vmcp, eventually};

fn head(length: usize) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: */*\r\ncontent-length: {length}\r\n"
    )
}

#[tokio::test]
async fn who_sends_too_slowly_is_not_waited_for() {
    let vmcp = Vmcp::new().config(json!({"server": {"receiveTimeout": "1s"}})).start().await;
    let mut silent = vmcp.connect().await;
    assert_eq!(silent.read_to_close().await, "");

    let mut headers = vmcp.connect().await;
    headers.send(&head(2).as_bytes()[..60]).await;
    let answer = headers.read_to_close().await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");

    let mut body = vmcp.connect().await;
    body.send(format!("{}connection: close\r\n\r\n{{", head(100)).as_bytes()).await;
    let answer = body.read_to_close().await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("server.receiveTimeout"), "{answer}");
}

#[tokio::test]
async fn too_many_headers_or_too_large_ones_are_refused() {
    let vmcp = Vmcp::new().start().await;
    for extra in [format!("x: {}\r\n", "y".repeat(100_000)), "a: b\r\n".repeat(101)] {
        let mut stream = vmcp.connect().await;
        stream.try_send(format!("{}{extra}\r\n{{}}", head(2)).as_bytes()).await;
        assert_eq!(stream.read(12).await, b"HTTP/1.1 431");
    }
    vmcp.modern().request("tools/list", json!({})).await.result();
}

#[tokio::test]
async fn one_connection_too_many_is_told_so_and_counted() {
    let vmcp = Vmcp::new().config(json!({"server": {"maxConnections": 2}})).start().await;
    let mut held = [vmcp.connect().await, vmcp.connect().await];
    for stream in &mut held {
        stream.send(b"POST /mcp HTTP/1.1\r\n").await;
    }
    eventually("two connections", async || {
        vmcp.metrics().await.contains("vmcp_client_connections 2\n").then_some(())
    })
    .await;
    let answer = vmcp.connect().await.read_to_close().await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("server.maxConnections"), "{answer}");
    assert!(vmcp.metrics().await.contains("vmcp_client_connections_refused_total 1\n"));
    drop(held);
    eventually("room again", async || {
        let mut stream = vmcp.connect().await;
        stream.try_send(b"GET /nothing HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
        stream.read_to_close().await.starts_with("HTTP/1.1 404").then_some(())
    })
    .await;
}

#[tokio::test]
async fn who_never_reads_is_cut_off() {
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp = Vmcp::new().backend(&echo).config(json!({"server": {"writeTimeout": "1s"}})).start().await;
    let client = vmcp.with_tool("echo_echo").await;
    let params = client.stamp(json!({"name": "echo_big", "arguments": {"bytes": 4_000_000}}));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let request = format!(
        "{}mcp-protocol-version: {MODERN}\r\nmcp-method: tools/call\r\nmcp-name: echo_big\r\n\r\n{body}",
        head(body.len())
    );
    let mut deaf = vmcp.connect().await;
    // More answers than the buffers of both systems hold.
    deaf.send(request.repeat(8).as_bytes()).await;
    eventually("a stalled client", async || {
        vmcp.metrics().await.contains("vmcp_client_stalls_total 1\n").then_some(())
    })
    .await;
    client.call_tool("echo_echo", json!({"message": "hi"})).await.result();
}
