//! The backend: MCP servers that answer from memory, on one thread, and count their requests.
//!
//! | path | server |
//! |---|---|
//! | `/dual/mcp` | both eras; tools whose results have 1 KB, 100 KB and 1 MB, and 10 MB that come slowly |
//! | `/legacy/mcp` | the same of 2025-11-25 only; keeps sessions |
//! | `/dual-sse/mcp`, `/legacy-sse/mcp` | likewise; results arrive as event streams |
//! | `/tools-N/mcp` | both eras; N tools |
//! | `/changing/mcp`, `/changing-legacy/mcp` | 20 tools that a storm changes |
//! | `GET /counts` | how often it was asked and connected to |
//! | `POST /storm?changes=N&rate=PER_SECOND` | changes the tools, tells the listeners, answers when done |

use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use vmcp_wire::era::Era;
use vmcp_wire::{headers, meta, methods};

use super::prebuilt_body::PrebuiltBody;
use super::served_content::{RESULTS, SLOW_RESULT};
use super::{role_process, served_content};

/// Events that a listening stream may leave unread; beyond, it is closed.
const MAX_UNREAD_EVENTS: usize = 4096;

/// Requests and connections since the start.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct RequestCounts {
    /// Messages by POST.
    pub(crate) requests: u64,
    /// Connections.
    pub(crate) connections: u64,
}

/// Outcome of a storm of changes.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct StormSummary {
    /// Time of the last change, in nanoseconds since 1970.
    pub(crate) last_change: u128,
    /// Version of the tools after it.
    pub(crate) version: u64,
    /// Streams of the gateway that were still open.
    pub(crate) listeners: usize,
}

#[derive(Default)]
struct SyntheticBackend {
    requests: AtomicU64,
    connections: AtomicU64,
    sessions: AtomicU64,
    version: AtomicU64,
    /// Bodies that are sent again and again, by request.
    prepared: Mutex<HashMap<String, Bytes>>,
    /// Open streams, each with the notification it gets when the tools change.
    listeners: Mutex<Vec<(mpsc::Sender<Bytes>, Bytes)>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    cursor: Option<Cow<'a, str>>,
}

/// Serves until killed.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(listen: SocketAddr) -> Result<()> {
    let backend = Arc::new(SyntheticBackend::default());
    let listener = role_process::announce(TcpListener::bind(listen).await?)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        backend.connections.fetch_add(1, Ordering::Relaxed);
        let backend = Arc::clone(&backend);
        let serve = service_fn(move |request| serve(Arc::clone(&backend), request));
        // A broken connection concerns only its client.
        tokio::spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), serve),
        );
    }
}

async fn serve(backend: Arc<SyntheticBackend>, request: Request<Incoming>) -> Result<Response<PrebuiltBody>> {
    let (parts, body) = request.into_parts();
    match (&parts.method, parts.uri.path()) {
        (&Method::GET, "/counts") => {
            let requests = backend.requests.load(Ordering::Relaxed);
            let connections = backend.connections.load(Ordering::Relaxed);
            respond(StatusCode::OK, plain(&RequestCounts { requests, connections })?)
        }
        (&Method::POST, "/storm") => {
            let query = parts.uri.query().unwrap_or_default();
            let number = |key| -> Option<u32> {
                query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
            };
            let summary =
                backend.run_storm(number("changes").context("changes")?, number("rate").context("rate")?);
            respond(StatusCode::OK, plain(&summary.await)?)
        }
        (&Method::POST, path) => {
            backend.requests.fetch_add(1, Ordering::Relaxed);
            let body = body.collect().await?.to_bytes();
            let server = path.trim_start_matches('/').trim_end_matches("/mcp").to_owned();
            backend.message(&server, &parts.headers, &body)
        }
        (&Method::GET, path) if path.starts_with("/changing") => {
            let notification = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, methods::TOOLS_CHANGED);
            backend.listener(None, &notification)
        }
        (&Method::DELETE, _) => respond(StatusCode::OK, PrebuiltBody::empty()),
        _ => respond(StatusCode::METHOD_NOT_ALLOWED, PrebuiltBody::empty()),
    }
}

impl SyntheticBackend {
    fn message(&self, server: &str, headers: &HeaderMap, body: &[u8]) -> Result<Response<PrebuiltBody>> {
        let message: Message<'_> = serde_json::from_slice(body)?;
        let Some(id) = message.id.map(RawValue::get) else {
            return respond(StatusCode::ACCEPTED, PrebuiltBody::empty());
        };
        let modern = headers.get(headers::PROTOCOL_VERSION).is_some_and(|value| value == "2026-07-28");
        let legacy_only = server.contains("legacy");
        if modern && legacy_only {
            return respond(StatusCode::BAD_REQUEST, error(id));
        }
        let era = if modern { Era::Modern } else { Era::Legacy };
        let params =
            message.params.map_or(Ok(Params::default()), |params| serde_json::from_str(params.get()))?;
        let version = self.version.load(Ordering::Relaxed);
        let member = match &*message.method {
            methods::INITIALIZE => {
                let session = format!("session-{}", self.sessions.fetch_add(1, Ordering::Relaxed));
                let mut response =
                    respond(StatusCode::OK, PrebuiltBody::document(id, introduction(server, None)))?;
                response.headers_mut().insert(headers::SESSION_ID, session.parse()?);
                return Ok(response);
            }
            methods::DISCOVER => introduction(server, Some(())),
            methods::PING => Bytes::from_static(br#""result":{}"#),
            methods::TOOLS_CALL => {
                let name = params.name.as_deref().unwrap_or_default();
                let mut results = RESULTS.iter().chain([&SLOW_RESULT]);
                let Some(result) = results.find(|result| result.tool == name) else {
                    return respond(StatusCode::OK, error(id));
                };
                let member = self.prepared(format!("{name} {era:?}"), || result.to_json(era));
                let events = server.ends_with("-sse");
                let body = match (name == SLOW_RESULT.tool, events) {
                    (true, _) => PrebuiltBody::slow(id, &member, events),
                    (false, true) => PrebuiltBody::event(id, member),
                    (false, false) => PrebuiltBody::document(id, member),
                };
                return if events { event_stream(body) } else { respond(StatusCode::OK, body) };
            }
            methods::TOOLS_LIST => {
                let cursor = params.cursor.as_deref().unwrap_or("0");
                let key = format!("{server} {cursor} {version} {era:?}");
                self.prepared(key, || list(server, cursor, version, era))
            }
            methods::LISTEN => {
                let subscription = format!(r#""_meta":{{"{}":{id}}}"#, meta::SUBSCRIPTION_ID);
                let acknowledged = format!(
                    r#"{{"jsonrpc":"2.0","method":"{}","params":{{"notifications":{{"toolsListChanged":true}},{subscription}}}}}"#,
                    methods::ACKNOWLEDGED
                );
                let notification = format!(
                    r#"{{"jsonrpc":"2.0","method":"{}","params":{{{subscription}}}}}"#,
                    methods::TOOLS_CHANGED
                );
                return self.listener(Some(&acknowledged), &notification);
            }
            _ if modern => return respond(StatusCode::NOT_FOUND, error(id)),
            _ => return respond(StatusCode::OK, error(id)),
        };
        respond(StatusCode::OK, PrebuiltBody::document(id, member))
    }

    /// Returns the `result` member under `key`; made once, then served from memory.
    fn prepared(&self, key: String, make: impl FnOnce() -> String) -> Bytes {
        let mut prepared = self.prepared.lock();
        if prepared.len() > 100 {
            // Old entries are lists of versions that no longer exist.
            prepared.clear();
        }
        prepared.entry(key).or_insert_with(|| format!(r#""result":{}"#, make()).into()).clone()
    }

    fn listener(&self, first: Option<&str>, notification: &str) -> Result<Response<PrebuiltBody>> {
        let (sender, events) = mpsc::channel(MAX_UNREAD_EVENTS);
        if let Some(first) = first {
            sender.try_send(event(first))?;
        }
        self.listeners.lock().push((sender, event(notification)));
        event_stream(PrebuiltBody::Events(events))
    }

    async fn run_storm(&self, changes: u32, rate: u32) -> StormSummary {
        let mut ticks = interval(Duration::from_secs(1) / rate.max(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut last_change = 0;
        for _ in 0..changes {
            ticks.tick().await;
            self.version.fetch_add(1, Ordering::Relaxed);
            last_change = now();
            // A stream that is closed, or that left too much unread, is dropped.
            self.listeners
                .lock()
                .retain(|(listener, notification)| listener.try_send(notification.clone()).is_ok());
        }
        let version = self.version.load(Ordering::Relaxed);
        StormSummary { last_change, version, listeners: self.listeners.lock().len() }
    }
}

/// Nanoseconds since 1970, by the clock that all processes of this machine share.
pub(crate) fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

/// Returns the result of `initialize`, or of `server/discover`.
fn introduction(server: &str, discovered: Option<()>) -> Bytes {
    let changes = server.starts_with("changing");
    let capabilities = format!(r#""capabilities":{{"tools":{{"listChanged":{changes}}}}}"#);
    let info = served_content::INFO;
    Bytes::from(match discovered {
        None => format!(r#""result":{{"protocolVersion":"2025-11-25",{capabilities},"serverInfo":{info}}}"#),
        Some(()) => format!(
            r#""result":{{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],{capabilities},"ttlMs":0,"cacheScope":"private","_meta":{{"{}":{info}}}}}"#,
            meta::SERVER_INFO
        ),
    })
}

/// Returns the result of `tools/list`. A cursor is the number of the first tool of the page.
fn list(server: &str, cursor: &str, version: u64, era: Era) -> String {
    let first = cursor.parse().unwrap_or_default();
    let tools = server.strip_prefix("tools-").and_then(|tools| tools.parse().ok());
    let (entries, more) = match tools {
        Some(tools) => served_content::page(tools, first, 0),
        None if server.starts_with("changing") => {
            served_content::page(served_content::CHANGING_TOOLS, first, version)
        }
        None => (served_content::callable(), false),
    };
    let mut result = format!(r#"{{"tools":[{entries}]"#);
    if more {
        let _ = write!(result, r#","nextCursor":"{}""#, first + served_content::TOOLS_PER_PAGE);
    }
    if era == Era::Modern {
        result.push_str(r#","resultType":"complete","ttlMs":0,"cacheScope":"private""#);
    }
    result.push('}');
    result
}

fn error(id: &str) -> PrebuiltBody {
    PrebuiltBody::document(id, Bytes::from_static(br#""error":{"code":-32601,"message":"not known here"}"#))
}

fn event(message: &str) -> Bytes {
    format!("data: {message}\n\n").into()
}

fn plain(value: &impl Serialize) -> Result<PrebuiltBody> {
    Ok(PrebuiltBody::Document(vec![serde_json::to_vec(value)?.into()]))
}

fn event_stream(body: PrebuiltBody) -> Result<Response<PrebuiltBody>> {
    Ok(Response::builder().header(CONTENT_TYPE, "text/event-stream").body(body)?)
}

fn respond(status: StatusCode, answer: PrebuiltBody) -> Result<Response<PrebuiltBody>> {
    Ok(Response::builder().status(status).header(CONTENT_TYPE, "application/json").body(answer)?)
}
