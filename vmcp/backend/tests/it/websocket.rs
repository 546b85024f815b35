//! Backends over websockets, against a server of the same library.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};
use vmcp_backend::{Backend, BackendSettings, BackendState};
use vmcp_config::{Headers, KnownSecrets, Transport};

use crate::credentials::tokens;
use crate::proxies::behind_tls;
use crate::support::scripts::initialized;
use crate::support::{
    cached, call, eventually, json, result, settings, spec, wait_for_definitions, wait_for_state,
};

type Socket = WebSocketStream<TcpStream>;

/// A websocket server whose connections are served by a closure.
struct Server {
    address: String,
    /// Headers of the handshakes, as `name: value` lines.
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start<S, F>(serve: S) -> Self
    where
        S: Fn(Socket) -> F + Clone + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (serve, seen) = (serve.clone(), Arc::clone(&seen));
                tokio::spawn(async move {
                    if let Ok(socket) = accept_hdr_async(stream, Handshake(seen)).await {
                        serve(socket).await;
                    }
                });
            }
        });
        Self { address, heads }
    }

    fn spec(&self) -> vmcp_config::Backend {
        spec("b", at(&format!("ws://{}/mcp", self.address)))
    }
}

/// Notes the headers, and chooses the subprotocol that is asked for.
struct Handshake(Arc<Mutex<Vec<String>>>);

impl tokio_tungstenite::tungstenite::handshake::server::Callback for Handshake {
    #[allow(clippy::result_large_err, reason = "the library's type")]
    fn on_request(self, request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
        let shown = |(name, value): (_, &http::HeaderValue)| format!("{name}: {}\n", value.to_str().unwrap());
        let head: String = request.headers().iter().map(shown).collect();
        self.0.lock().unwrap().push(format!("{}\n{head}", request.uri()));
        let wanted = request.headers()["sec-websocket-protocol"].clone();
        response.headers_mut().insert("sec-websocket-protocol", wanted);
        Ok(response)
    }
}

fn at(url: &str) -> Transport {
    let headers = Headers::from([("authorization".to_owned(), "Bearer hunter2-hunter2".into())]);
    Transport::WebSocket { url: url.parse().unwrap(), headers }
}

/// Answers a message as a legacy server with one tool does.
fn answer(message: &Value) -> Option<Value> {
    let id = message.get("id")?;
    let result = match message["method"].as_str()? {
        "initialize" => initialized(),
        "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        "tools/call" => json!({"content": [], "structuredContent": {"of": "websocket"}}),
        _ => return Some(json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}})),
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// Reads the next message, and lets the library answer pings.
async fn next(socket: &mut Socket) -> Option<Value> {
    loop {
        match socket.next().await?.ok()? {
            Message::Text(text) => return Some(json(&text)),
            Message::Close(_) => return None,
            _ => {}
        }
    }
}

async fn send(socket: &mut Socket, message: &Value) {
    let _ = socket.send(Message::text(message.to_string())).await;
}

/// Serves until a call comes, and returns its message.
async fn until_call(socket: &mut Socket) -> Option<Value> {
    loop {
        let message = next(socket).await?;
        if message["method"] == "tools/call" {
            return Some(message);
        }
        if let Some(answer) = answer(&message) {
            send(socket, &answer).await;
        }
    }
}

async fn serve(mut socket: Socket) {
    while let Some(call) = until_call(&mut socket).await {
        send(&mut socket, &answer(&call).unwrap()).await;
    }
}

#[tokio::test]
async fn lists_calls_and_messages_of_the_server_go_over_one_connection() {
    let tools = Arc::new(AtomicUsize::new(1));
    let pongs = Arc::new(Mutex::new(Vec::new()));
    let (of_server, seen) = (Arc::clone(&tools), Arc::clone(&pongs));
    let server = Server::start(move |mut socket| {
        let (tools, pongs) = (Arc::clone(&of_server), Arc::clone(&seen));
        async move {
            while let Some(message) = next(&mut socket).await {
                if message.get("method").is_none() {
                    pongs.lock().unwrap().push(message);
                    continue;
                }
                let Some(mut answer) = answer(&message) else { continue };
                if message["method"] == "tools/list" {
                    let named = |n| json!({"name": format!("echo{n}"), "inputSchema": {"type": "object"}});
                    answer["result"]["tools"] = (0..tools.load(Ordering::SeqCst)).map(named).collect();
                }
                if message["method"] == "tools/call" {
                    tools.store(2, Ordering::SeqCst);
                    send(&mut socket, &json!({"jsonrpc": "2.0", "id": "q", "method": "ping"})).await;
                    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                    send(&mut socket, &changed).await;
                }
                send(&mut socket, &answer).await;
            }
        }
    })
    .await;
    let backend = Backend::start(server.spec(), settings(), None);
    wait_for_definitions(&backend, |found| found.tools.len() == 1).await;
    assert!(result(&call(&backend, "echo0").await.unwrap()).contains("websocket"));
    wait_for_definitions(&backend, |found| found.tools.len() == 2).await;
    eventually("the answer to the server's ping", || {
        (*pongs.lock().unwrap() == [json!({"jsonrpc": "2.0", "id": "q", "result": {}})]).then_some(())
    })
    .await;
    assert_eq!(backend.status().transport, "websocket");
    backend.stop().await;
    let heads = server.heads.lock().unwrap().clone();
    for part in [
        "/mcp\n",
        "sec-websocket-protocol: mcp\n",
        "authorization: Bearer hunter2-hunter2\n",
        "sec-websocket-version: 13\n",
        "user-agent: vmcp/",
    ] {
        assert!(heads[0].contains(part), "{part}: {}", heads[0]);
    }
}

#[tokio::test]
async fn a_server_behind_tls_is_trusted_by_its_authority() {
    let server = Server::start(serve).await;
    let (tls, pem) = behind_tls(&server.address).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    std::fs::write(&path, pem).unwrap();
    let transport = at(&format!("wss://localhost:{}/mcp", tls.port()));
    let one_try = || BackendSettings { max_connection_retries: 0, ..settings() };
    let stranger = Backend::start(spec("b", transport.clone()), one_try(), None);
    let error = wait_for_state(&stranger, BackendState::Failed).await.last_error.unwrap();
    assert!(error.contains("caBundlePath"), "{error}");
    stranger.stop().await;
    let trusting = vmcp_config::Backend { ca_bundle_path: Some(path), ..spec("b", transport) };
    let backend = Backend::start(trusting, settings(), None);
    assert!(call(&backend, "echo").await.is_ok());
    backend.stop().await;
}

#[tokio::test]
async fn a_server_that_refuses_the_handshake_is_named_with_its_reason() {
    for (response, expected) in [
        ("401 Unauthorized", "HTTP 401"),
        ("404 Not Found", "HTTP status 404"),
        ("302 Found\r\nlocation: http://elsewhere.example/", "it redirects to http://elsewhere.example/"),
        ("200 OK", "the URL does not open a websocket"),
        (
            "101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: AA==",
            "Sec-WebSocket-Accept does not fit the key",
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 4096]).await;
                let body = "no entry for hunter2-hunter2";
                let length = if response.starts_with("101") { 0 } else { body.len() };
                let head = format!("HTTP/1.1 {response}\r\ncontent-length: {length}\r\n\r\n");
                let _ = stream.write_all(format!("{head}{}", &body[..length]).as_bytes()).await;
            }
        });
        let settings = BackendSettings { max_connection_retries: 0, ..settings() };
        let backend = Backend::start(spec("b", at(&url)), settings, None);
        let error = wait_for_state(&backend, BackendState::Failed).await.last_error.unwrap();
        assert!(error.contains(expected), "{response}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
        backend.stop().await;
    }
}

/// Starts a server that does `harm` at its first call and serves later connections; returns the error of that
/// call, after a later call has succeeded.
async fn harmed<H, F>(settings: BackendSettings, harm: H) -> String
where
    H: Fn(Socket) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let calls = Arc::new(AtomicUsize::new(0));
    let server = Server::start(move |mut socket| {
        let (calls, harm) = (Arc::clone(&calls), harm.clone());
        async move {
            while let Some(call) = until_call(&mut socket).await {
                if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                    return harm(socket).await;
                }
                send(&mut socket, &answer(&call).unwrap()).await;
            }
        }
    })
    .await;
    let mut spec = server.spec();
    spec.known_secrets = KnownSecrets::of(&spec.transport, []);
    let backend = Backend::start(spec, settings, Some(cached()));
    let error = call(&backend, "echo").await.unwrap_err();
    let shown = format!("{error:?}");
    assert!(call(&backend, "echo").await.is_ok(), "{shown}");
    backend.stop().await;
    shown
}

#[tokio::test]
async fn a_close_frame_ends_the_call_with_its_code_and_words_without_secrets() {
    let error = harmed(settings(), async |mut socket| {
        let reason = "restarting for hunter2-hunter2".into();
        let frame = CloseFrame { code: 1012.into(), reason };
        let _ = socket.close(Some(frame)).await;
    })
    .await;
    assert!(error.contains("with code 1012: restarting for ***"), "{error}");
}

#[tokio::test]
async fn a_close_frame_repeats_no_token_of_the_handshake() {
    let own = BackendSettings { credentials: Some(tokens("fetched")), ..settings() };
    let error = harmed(own, async |mut socket| {
        let frame = CloseFrame { code: 1008.into(), reason: "expired: fetched-1".into() };
        let _ = socket.close(Some(frame)).await;
    })
    .await;
    assert!(error.contains("with code 1008: expired: ***"), "{error}");
}

#[tokio::test]
async fn a_message_beyond_the_limit_ends_the_connection_and_names_the_limit() {
    let limited = BackendSettings { max_message_bytes: 10_000, ..settings() };
    let error = harmed(limited, async |mut socket| {
        send(&mut socket, &json!({"jsonrpc": "2.0", "method": "m", "params": {"p": "x".repeat(10_000)}}))
            .await;
        std::future::pending::<()>().await;
    })
    .await;
    assert!(error.contains("a message longer than the limit of 10000 bytes"), "{error}");
}

#[tokio::test]
async fn a_flood_of_pings_ends_the_connection_and_is_named() {
    let error = harmed(
        settings(),
        async |mut socket| {
            while socket.send(Message::Ping(Bytes::new())).await.is_ok() {}
        },
    )
    .await;
    assert!(error.contains("floods its stream"), "{error}");
}

#[tokio::test]
async fn frames_without_end_and_without_payload_end_the_connection() {
    let limited = BackendSettings { max_message_bytes: 10_000, ..settings() };
    let error = harmed(limited, async |mut socket| {
        let stream = socket.get_mut();
        // A text frame that is not the last, and continuations of it.
        let _ = stream.write_all(&[0x01, 0x00]).await;
        while stream.write_all(&[0; 4096]).await.is_ok() {}
    })
    .await;
    assert!(error.contains("bytes of frames without a whole message"), "{error}");
}

#[tokio::test]
async fn a_half_open_connection_is_found_by_pings() {
    let impatient = BackendSettings { ping_interval: Duration::from_millis(300), ..settings() };
    let error = harmed(impatient, async |_socket| std::future::pending().await).await;
    assert!(error.contains("no answer to pings for 900ms"), "{error}");
}

#[tokio::test]
async fn garbage_is_ignored_and_the_call_goes_on() {
    let server = Server::start(async |mut socket| {
        while let Some(call) = until_call(&mut socket).await {
            for _ in 0..200 {
                let _ = socket.send(Message::text("hello")).await;
            }
            let _ = socket.send(Message::binary(&b"\xff\x00"[..])).await;
            send(&mut socket, &answer(&call).unwrap()).await;
        }
    })
    .await;
    let backend = Backend::start(server.spec(), settings(), Some(cached()));
    assert!(result(&call(&backend, "echo").await.unwrap()).contains("websocket"));
    backend.stop().await;
}
