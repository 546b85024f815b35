//! An HTTP server that answers as a closure tells it, and remembers what it was asked.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use axum::serve::ListenerExt as _;
use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use vmcp_config::{Headers, Transport};

/// One HTTP request.
#[derive(Clone, Debug)]
pub(crate) struct SeenRequest {
    pub http: Method,
    pub path: String,
    pub headers: HeaderMap,
    /// Null without one.
    pub body: Value,
}

impl SeenRequest {
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
    pub(crate) fn id(&self) -> u64 {
        self.body["id"].as_u64().unwrap()
    }
    /// A JSON-RPC response to this request, with `result` as written.
    pub(crate) fn answer(&self, result: impl std::fmt::Display) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, self.id())
    }
    pub(crate) fn error(&self, code: i64) -> String {
        json!({"jsonrpc": "2.0", "id": self.body["id"], "error": {"code": code, "message": "no"}}).to_string()
    }
    pub(crate) fn progress_token(&self) -> &Value {
        &self.body["params"]["_meta"]["progressToken"]
    }
}

/// The answer to a request.
pub(crate) enum Reply {
    Json(String),
    /// With this session id.
    Session(String, String),
    /// With these headers.
    With(&'static [(&'static str, &'static str)], String),
    Status(u16, String),
    /// An event stream of these bytes, one piece after the other.
    Pieces(Vec<String>),
    /// An event stream that sends these bytes, and goes on with what the channel brings until its sender is
    /// dropped.
    Live(String, tokio::sync::mpsc::UnboundedReceiver<String>),
    /// JSON that goes on with the channel's pieces until its sender is dropped.
    LiveJson(String, tokio::sync::mpsc::UnboundedReceiver<String>),
    /// JSON in these pieces.
    StreamJson(BoxStream<'static, String>),
    /// An event stream that repeats these bytes as fast as they are read, for ever.
    Flood(String),
    /// An event stream that breaks after these bytes.
    Broken(Vec<u8>),
    /// JSON that breaks off after these bytes.
    BrokenJson(Vec<u8>),
    /// Nothing, ever.
    Hang,
}

/// One event with one message.
pub(crate) fn event(message: &str) -> String {
    format!("event: message\ndata: {message}\n\n")
}

#[derive(Clone)]
pub(crate) struct Server {
    address: String,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
    /// Streams and hanging requests that the client closed before their end.
    closed: Arc<Mutex<u32>>,
    task: Arc<JoinHandle<()>>,
}

impl Server {
    pub(crate) async fn start(answer: impl Fn(&SeenRequest) -> Reply + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0", answer).await
    }

    pub(crate) async fn at(
        address: &str,
        answer: impl Fn(&SeenRequest) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (seen, closed) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
        let (log, count) = (Arc::clone(&seen), Arc::clone(&closed));
        let answer = Arc::new(answer);
        let app = Router::new().fallback(move |request: Request| {
            let (log, count, answer) = (Arc::clone(&log), Arc::clone(&count), Arc::clone(&answer));
            async move {
                let (parts, body) = request.into_parts();
                let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
                let body = serde_json::from_slice(&bytes).unwrap_or_default();
                let path = parts.uri.path().to_owned();
                let seen = SeenRequest { http: parts.method, path, headers: parts.headers, body };
                log.lock().unwrap().push(seen.clone());
                respond(answer(&seen), count).await
            }
        });
        let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
        let task = Arc::new(tokio::spawn(async move { axum::serve(listener, app).await.unwrap() }));
        Self { address, seen, closed, task }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn transport(&self) -> Transport {
        let url = format!("http://{}/mcp", self.address).parse().unwrap();
        Transport::Http { url, headers: Headers::from([("x-configured".to_owned(), "yes".into())]) }
    }

    pub(crate) fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().unwrap().clone()
    }

    /// The requests of one method.
    pub(crate) fn asked(&self, method: &str) -> Vec<SeenRequest> {
        self.seen().into_iter().filter(|seen| seen.method() == method).collect()
    }

    pub(crate) fn streams_closed_by_client(&self) -> u32 {
        *self.closed.lock().unwrap()
    }

    /// Stops listening; open connections are cut.
    pub(crate) async fn stop(&self) {
        self.task.abort();
        while !self.task.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Counts itself when it is dropped before `done`.
struct Watch {
    count: Arc<Mutex<u32>>,
    done: bool,
}

impl Watch {
    fn finish(&mut self) {
        self.done = true;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.done {
            *self.count.lock().unwrap() += 1;
        }
    }
}

async fn respond(reply: Reply, count: Arc<Mutex<u32>>) -> Response {
    let json = |status: StatusCode, body: String| {
        Response::builder()
            .status(status)
            .header("content-type", "application/json")
            .body(Body::from(body))
            .unwrap()
    };
    let events = |body: Body| {
        Response::builder().header("content-type", "text/event-stream; charset=utf-8").body(body).unwrap()
    };
    let mut watch = Watch { count, done: false };
    match reply {
        Reply::Json(body) => {
            watch.finish();
            json(StatusCode::OK, body)
        }
        Reply::Session(id, body) => {
            watch.finish();
            let mut response = json(StatusCode::OK, body);
            response.headers_mut().insert("mcp-session-id", id.parse().unwrap());
            response
        }
        Reply::With(headers, body) => {
            watch.finish();
            let mut response = json(StatusCode::OK, body);
            for (name, value) in headers {
                response.headers_mut().insert(*name, value.parse().unwrap());
            }
            response
        }
        Reply::Status(status, body) => {
            watch.finish();
            json(StatusCode::from_u16(status).unwrap(), body)
        }
        Reply::Pieces(pieces) => {
            watch.finish();
            // A pause between pieces, so that each becomes a chunk of its own.
            let pieces = stream::iter(pieces).then(async |piece| {
                tokio::time::sleep(Duration::from_millis(1)).await;
                Ok::<_, Infallible>(Bytes::from(piece))
            });
            events(Body::from_stream(pieces))
        }
        Reply::Live(first, more) => events(live(first, more, watch)),
        Reply::LiveJson(first, more) => as_json(live(first, more, watch)),
        Reply::StreamJson(pieces) => {
            let pieces = stream::unfold((pieces, watch), |(mut pieces, watch)| async move {
                Some((Ok::<_, Infallible>(Bytes::from(pieces.next().await?)), (pieces, watch)))
            });
            as_json(Body::from_stream(pieces))
        }
        Reply::Flood(piece) => {
            watch.finish();
            events(Body::from_stream(stream::repeat(Ok::<_, Infallible>(Bytes::from(piece)))))
        }
        Reply::Broken(start) => {
            watch.finish();
            events(broken(start))
        }
        Reply::BrokenJson(start) => {
            watch.finish();
            as_json(broken(start))
        }
        Reply::Hang => {
            let _watch = watch;
            std::future::pending().await
        }
    }
}

fn as_json(body: Body) -> Response {
    Response::builder().header("content-type", "application/json").body(body).unwrap()
}

/// `first`, then what the channel brings until its sender is dropped.
fn live(first: String, more: tokio::sync::mpsc::UnboundedReceiver<String>, watch: Watch) -> Body {
    let more = stream::unfold((more, watch), |(mut more, mut watch)| async move {
        let text = more.recv().await;
        if text.is_none() {
            watch.finish();
        }
        text.map(|text| (text, (more, watch)))
    });
    Body::from_stream(stream::iter([first]).chain(more).map(|text| Ok::<_, Infallible>(Bytes::from(text))))
}

/// The bytes, and then an error in place of an end.
fn broken(start: Vec<u8>) -> Body {
    let pieces = [Ok(Bytes::from(start)), Err(std::io::Error::other("broken on purpose"))];
    // The pieces sent before must have left.
    Body::from_stream(stream::iter(pieces).then(async |piece| {
        tokio::time::sleep(Duration::from_millis(10)).await;
        piece
    }))
}
