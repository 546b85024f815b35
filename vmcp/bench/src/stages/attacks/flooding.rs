//! Stage `hostile`, its second row: latency of twelve honest clients beside servers that flood bytes without
//! a message, in answers to calls and on the streams that vmcp opens itself.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::future::join_all;
use futures::stream;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::time::sleep;
use vmcp_wire::methods;

use super::hostile::{call, calls, honest_clients};
use crate::client::replay_client::Endpoint;
use crate::progress::progress;
use crate::report::{Report, Row, Section, Unit, format_value};
use crate::roles::served_content::TOOL_COUNT;
use crate::samples::Samples;
use crate::testbed::{ANY_LOCAL_PORT, Testbed};

const HONEST_CLIENTS: u64 = 12;
/// Rounds without the floods and with them, in turns.
const ROUNDS: usize = 5;
/// Calls of the hostile client at a time, each answered with a flood.
const HOSTILE_CALLS: usize = 6;
/// Servers whose listening stream floods.
const SERVERS: usize = 4;
/// Bytes that a flood repeats.
const FILLERS: [&str; 3] = [":\n\n", "\n", "event: message\n\n"];
/// Interval at which a stream that is silent looks if it is to flood.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// Highest p99 beside the floods, as a multiple of the p99 without them.
const MAX_RATIO: f64 = 2.0;

/// Measures the honest clients with and without the floods, and adds the row.
pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    progress("hostile: twelve honest clients and six streams that flood");
    let server = Flooder::start()?;
    let mut testbed = Testbed::new(ANY_LOCAL_PORT).await?;
    let url = format!("http://{}/mcp", server.address);
    let hostile = (0..SERVERS).map(|number| json!({"name": format!("flood{number}"), "url": url}));
    let backends: Vec<_> = std::iter::once(testbed.entry("dual")).chain(hostile).collect();
    testbed.start_vmcp(json!({
        "backends": backends,
        "optimizer": {"embeddings": {"provider": "none"}, "exposure": "All"},
    }))?;
    testbed.vmcp()?.complete_list(TOOL_COUNT + SERVERS).await?;
    let endpoint = Endpoint { address: testbed.vmcp()?.clients, path: "/mcp".to_owned() };
    let mut clients = honest_clients(&endpoint, HONEST_CLIENTS).await?;
    let (mut calm, mut flooded) = (Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        calm.extend([calls(&mut clients).await?.p99()]);
        server.flood(Some(endpoint.address));
        flooded.extend([calls(&mut clients).await?.p99()]);
        server.flood(None);
    }
    let streams = server.streams.load(Ordering::Relaxed);
    ensure!(streams > 0, "nothing flooded");
    let ratio = flooded.p50() / calm.p50();
    report.check_target("p99 beside streams that flood: p99 without", Unit::Ratio, ratio, MAX_RATIO);
    report.add(
        Section::Hostile,
        Row {
            what: format!("call of {HONEST_CLIENTS} honest clients beside {streams} streams that flooded"),
            n: ROUNDS * HONEST_CLIENTS as usize,
            p99: format_value(flooded.p50(), Unit::Seconds),
            yardstick: "without them, p99".to_owned(),
            compared: Some((format_value(calm.p50(), Unit::Seconds), ratio)),
            ..Row::default()
        },
    );
    testbed.end().await
}

/// A server that floods while it is told to, and a client that calls it, on a thread of their own.
struct Flooder {
    address: SocketAddr,
    /// True while streams flood.
    floods: Arc<AtomicBool>,
    /// Port of the server whose client is hostile; 0 without one.
    attacked: Arc<AtomicU64>,
    /// Streams that flooded.
    streams: Arc<AtomicU64>,
}

impl Flooder {
    fn start() -> Result<Flooder> {
        let listener = std::net::TcpListener::bind(ANY_LOCAL_PORT)?;
        listener.set_nonblocking(true)?;
        let flooder = Flooder {
            address: listener.local_addr()?,
            floods: Arc::default(),
            attacked: Arc::default(),
            streams: Arc::default(),
        };
        let (floods, attacked, streams) =
            (Arc::clone(&flooder.floods), Arc::clone(&flooder.attacked), Arc::clone(&flooder.streams));
        let runtime = Builder::new_current_thread().enable_all().build()?;
        std::thread::spawn(move || {
            runtime.block_on(async {
                let app = Router::new().fallback(move |request: Request| {
                    answer(request, Arc::clone(&floods), Arc::clone(&streams))
                });
                let listener = TcpListener::from_std(listener)?;
                let attack = join_all((0..HOSTILE_CALLS).map(|number| attack(number, &attacked)));
                let (served, _) = futures::join!(axum::serve(listener, app).into_future(), attack);
                served
            })
        });
        Ok(flooder)
    }

    /// Begins to flood and to call `server`, or ends that.
    fn flood(&self, server: Option<SocketAddr>) {
        self.attacked.store(server.map_or(0, |server| server.port().into()), Ordering::Relaxed);
        self.floods.store(server.is_some(), Ordering::Relaxed);
    }
}

/// Calls one tool over and over while there is a server to attack.
async fn attack(number: usize, attacked: &AtomicU64) {
    let request = call(&format!("flood{}_flood", number % SERVERS), "{}");
    loop {
        let port = u16::try_from(attacked.load(Ordering::Relaxed)).unwrap_or_default();
        if port == 0 {
            sleep(LOOK_INTERVAL).await;
            continue;
        }
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
        // The beginning of the answer tells that the flood has ended.
        if stream.write_all(request.as_bytes()).await.is_ok() {
            let _ = stream.read(&mut [0; 1024]).await;
        }
    }
}

async fn answer(request: Request, floods: Arc<AtomicBool>, streams: Arc<AtomicU64>) -> Response {
    if request.method() == Method::GET {
        return flood(floods, streams);
    }
    let body = to_bytes(request.into_body(), usize::MAX).await.unwrap_or_default();
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
    let result = match method {
        methods::INITIALIZE => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "flood", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{"name": "flood", "inputSchema": {"type": "object"}}]}),
        methods::TOOLS_CALL => return flood(floods, streams),
        methods::DISCOVER => return StatusCode::BAD_REQUEST.into_response(),
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    let answer = json!({"jsonrpc": "2.0", "id": message.get("id"), "result": result}).to_string();
    let session = header::HeaderName::from_static("mcp-session-id");
    ([(header::CONTENT_TYPE, "application/json"), (session, "s1")], answer).into_response()
}

/// An event stream that is silent until it floods; then it lasts until it is closed.
fn flood(floods: Arc<AtomicBool>, streams: Arc<AtomicU64>) -> Response {
    let number = streams.load(Ordering::Relaxed) as usize;
    let filler = FILLERS.get(number % FILLERS.len()).copied().unwrap_or("\n");
    let piece = Bytes::from(filler.repeat(16 * 1024));
    let pieces = stream::unfold(false, move |flooded| {
        let (floods, streams, piece) = (Arc::clone(&floods), Arc::clone(&streams), piece.clone());
        async move {
            while !floods.load(Ordering::Relaxed) {
                sleep(LOOK_INTERVAL).await;
            }
            if !flooded {
                streams.fetch_add(1, Ordering::Relaxed);
            }
            Some((Ok::<_, Infallible>(piece), true))
        }
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(pieces)).into_response()
}
