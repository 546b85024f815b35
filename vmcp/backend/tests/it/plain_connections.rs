//! The pool of plain HTTP/1.1 connections, seen from the server's sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use vmcp_backend::{Backend, Request};
use vmcp_config::{Headers, Transport};

use crate::support::{cached, call, eventually, params_of, result, settings, spec};

/// Counts of a [`RawServer`].
#[derive(Default)]
struct Counts {
    connections: AtomicUsize,
    open: AtomicUsize,
    calls: AtomicU32,
}

/// The way in which the server ends the answer to a call.
#[derive(Clone, Copy, PartialEq)]
enum AfterCall {
    Keep,
    /// Closes without announcing it.
    Close,
    /// Reads a call and closes the connection in place of an answer.
    Vanish,
}

/// A modern server on bare sockets.
struct RawServer {
    address: String,
    counts: Arc<Counts>,
}

impl RawServer {
    async fn start(after_call: AfterCall) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let counts = Arc::new(Counts::default());
        let all = Arc::clone(&counts);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let counts = Arc::clone(&all);
                counts.connections.fetch_add(1, Ordering::SeqCst);
                counts.open.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    serve(socket, after_call, &counts).await;
                    counts.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, counts }
    }

    fn transport(&self) -> Transport {
        Transport::Http {
            url: format!("http://{}/mcp?x=1", self.address).parse().unwrap(),
            headers: Headers::new(),
        }
    }

    fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::SeqCst)
    }

    fn open(&self) -> usize {
        self.counts.open.load(Ordering::SeqCst)
    }

    fn calls(&self) -> u32 {
        self.counts.calls.load(Ordering::SeqCst)
    }
}

async fn serve(mut socket: TcpStream, after_call: AfterCall, counts: &Counts) {
    let mut read = Vec::new();
    loop {
        let Some(request) = request(&mut socket, &mut read).await else { return };
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("POST /mcp?x=1 HTTP/1.1\r\n") && head.contains("\r\nhost: 127.0.0.1:"),
            "{head}"
        );
        let id = crate::support::json(body)["id"].to_string();
        let is_call = body.contains("\"tools/call\"");
        let result = match () {
            () if is_call => r#"{"resultType":"complete","content":[]}"#,
            () if body.contains("server/discover") => {
                r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#
            }
            () if body.contains("subscriptions/listen") => {
                // Open for as long as the client wants.
                let _ = socket.read(&mut [0; 1]).await;
                return;
            }
            () => r#"{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"public"}"#,
        };
        if is_call {
            counts.calls.fetch_add(1, Ordering::SeqCst);
            if after_call == AfterCall::Vanish {
                return;
            }
        }
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        socket.write_all(format!("{head}{answer}").as_bytes()).await.unwrap();
        if is_call && after_call == AfterCall::Close {
            return;
        }
    }
}

/// Reads one request; `None` at the end of the connection.
async fn request(socket: &mut TcpStream, read: &mut Vec<u8>) -> Option<String> {
    loop {
        let text = String::from_utf8_lossy(read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                let whole = head.len() + 4 + length;
                read.drain(..whole);
                return Some(text[..whole].to_owned());
            }
        }
        if socket.read_buf(read).await.ok()? == 0 {
            return None;
        }
    }
}

#[tokio::test]
async fn calls_one_after_the_other_share_a_connection() {
    let server = RawServer::start(AfterCall::Keep).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), Some(cached()));
    for _ in 0..20 {
        call(&backend, "echo").await.unwrap();
    }
    // The handshake, the lists and the notification stream are at most three at a time.
    assert!(server.connections() <= 3, "{} connections", server.connections());
    backend.stop().await;
    eventually("closed connections", || (server.open() == 0).then_some(())).await;
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_replaced_and_the_call_sent_once() {
    let server = RawServer::start(AfterCall::Close).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), Some(cached()));
    for _ in 0..20 {
        let response = call(&backend, "echo").await.unwrap();
        assert!(result(&response).contains("content"));
        // The end must have arrived: before that, no pool can see it.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.calls(), 20, "each call was executed once");
    backend.stop().await;
}

#[tokio::test]
async fn a_call_that_the_server_may_have_executed_is_not_sent_again() {
    let server = RawServer::start(AfterCall::Vanish).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), Some(cached()));
    let error = call(&backend, "echo").await.unwrap_err();
    assert_eq!(error.category(), "unavailable");
    assert_eq!(server.calls(), 1);
    let params = params_of(r#"{"name":"echo"}"#);
    let again = Request { idempotent: true, ..Request::new("tools/call", &params) };
    backend.request(again).await.unwrap_err();
    assert_eq!(server.calls(), 3, "an idempotent call is tried twice");
    backend.stop().await;
}

#[tokio::test]
async fn an_idle_connection_that_the_server_closes_does_not_linger() {
    let server = RawServer::start(AfterCall::Close).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), Some(cached()));
    call(&backend, "echo").await.unwrap();
    let address: std::net::SocketAddr = server.address.parse().unwrap();
    // Sockets of this process that wait to be closed after the server's end, in the kernel's words.
    let half_closed = || {
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap_or_default();
        let remote = format!(":{:04X} 08 ", address.port());
        table.lines().filter(|line| line.contains(&remote)).count()
    };
    eventually("the sweep", || (half_closed() == 0).then_some(())).await;
    backend.stop().await;
}
