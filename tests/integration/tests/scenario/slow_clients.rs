//! Slow clients: those that send or read too slowly, and too many at once, are bounded, told where that is
//! possible, and counted.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use vmcp_integration::{Fixture, MODERN, Vmcp, WAIT_TIMEOUT, eventually};

async fn connect(vmcp: &Vmcp) -> TcpStream {
    let address = vmcp.url.trim_start_matches("http://").trim_end_matches("/mcp");
    TcpStream::connect(address).await.expect("a connection")
}

/// Returns everything that the server sends until it closes the connection.
async fn read_to_close(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    // A reset ends the connection too.
    let _ =
        timeout(WAIT_TIMEOUT, stream.read_to_end(&mut all)).await.expect("the server closes the connection");
    String::from_utf8_lossy(&all).into_owned()
}

fn head(length: usize) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: */*\r\ncontent-length: {length}\r\n"
    )
}

#[tokio::test]
async fn who_sends_too_slowly_is_not_waited_for() {
    let vmcp = Vmcp::new().config(json!({"server": {"receiveTimeout": "1s"}})).start().await;
    let mut silent = connect(&vmcp).await;
    assert_eq!(read_to_close(&mut silent).await, "");

    let mut headers = connect(&vmcp).await;
    headers.write_all(&head(2).as_bytes()[..60]).await.unwrap();
    let answer = read_to_close(&mut headers).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");

    let mut body = connect(&vmcp).await;
    body.write_all(format!("{}connection: close\r\n\r\n{{", head(100)).as_bytes()).await.unwrap();
    let answer = read_to_close(&mut body).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("server.receiveTimeout"), "{answer}");
}

#[tokio::test]
async fn too_many_headers_or_too_large_ones_are_refused() {
    let vmcp = Vmcp::new().start().await;
    for extra in [format!("x: {}\r\n", "y".repeat(100_000)), "a: b\r\n".repeat(101)] {
        let mut stream = connect(&vmcp).await;
        let _ = stream.write_all(format!("{}{extra}\r\n{{}}", head(2)).as_bytes()).await;
        let mut begin = [0; 12];
        timeout(WAIT_TIMEOUT, stream.read_exact(&mut begin)).await.unwrap().expect("an answer");
        assert_eq!(&begin, b"HTTP/1.1 431");
    }
    vmcp.modern().request("tools/list", json!({})).await.result();
}

#[tokio::test]
async fn one_connection_too_many_is_told_so_and_counted() {
    let vmcp = Vmcp::new().config(json!({"server": {"maxConnections": 2}})).start().await;
    let mut held = [connect(&vmcp).await, connect(&vmcp).await];
    for stream in &mut held {
        stream.write_all(b"POST /mcp HTTP/1.1\r\n").await.unwrap();
    }
    eventually("two connections", async || {
        vmcp.metrics().await.contains("vmcp_client_connections 2\n").then_some(())
    })
    .await;
    let answer = read_to_close(&mut connect(&vmcp).await).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("server.maxConnections"), "{answer}");
    assert!(vmcp.metrics().await.contains("vmcp_client_connections_refused_total 1\n"));
    drop(held);
    eventually("room again", async || {
        let mut stream = connect(&vmcp).await;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.ok()?;
        read_to_close(&mut stream).await.starts_with("HTTP/1.1 404").then_some(())
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
    let mut deaf = connect(&vmcp).await;
    // More answers than the buffers of both systems hold.
    deaf.write_all(request.repeat(8).as_bytes()).await.unwrap();
    eventually("a stalled client", async || {
        vmcp.metrics().await.contains("vmcp_client_stalls_total 1\n").then_some(())
    })
    .await;
    client.call_tool("echo_echo", json!({"message": "hi"})).await.result();
}
