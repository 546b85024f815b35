//! [`GrpcClient`]: unary calls of gRPC over HTTP/2, for exports.
//!
//! Source: "gRPC over HTTP2" (PROTOCOL-HTTP2.md of grpc). One message goes out, one comes back, and the
//! trailers have the status. Messages are not compressed.

mod status;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::{LazyLock, mpsc};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, TE, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use tokio::runtime::{Builder, Runtime};
use vmcp_egress::{Http2Connector, http2_connector};

pub(super) use self::status::GrpcError;
use self::status::{GrpcStatus, StatusCode as GrpcCode};

/// Bytes of an answer that are read; the rest is left. A collector answers with a short message.
pub(super) const MAX_ANSWER_BYTES: u64 = 64 * 1024;
/// Media type of requests and answers; that of answers may have a suffix such as `+proto`.
const GRPC: &str = "application/grpc";
/// Bytes before a message: a flag for compression, and the length.
const PREFIX_BYTES: usize = 5;
/// Interval of HTTP/2 pings while an export waits. They notice a collector that vanished without closing.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// Runs the connections of all exports: exporters block on threads of their own, between exports too, and an
/// HTTP/2 connection has pings to answer then.
static RUNTIME: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    Builder::new_multi_thread().worker_threads(1).thread_name("vmcp-otlp").enable_all().build()
});

/// Calls methods of one collector, over one connection.
#[derive(Debug, Clone)]
pub(super) struct GrpcClient {
    http: Client<Http2Connector, Full<Bytes>>,
    timeout: Duration,
}

impl GrpcClient {
    /// Makes a client that connects with its first call. `authorities` are trusted besides those of the
    /// system.
    pub(super) fn new(timeout: Duration, authorities: &[CertificateDer<'static>]) -> Self {
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .http2_only(true)
            .http2_keep_alive_interval(PING_INTERVAL)
            .build(http2_connector(timeout, authorities));
        Self { http, timeout }
    }

    /// Calls the method at `uri` and returns the message of the answer. Blocks the thread for at most the
    /// time limit.
    pub(super) fn call(&self, uri: Uri, metadata: &HeaderMap, message: &[u8]) -> Result<Bytes, GrpcError> {
        let request = self.request(uri, metadata, message)?;
        let runtime = RUNTIME.as_ref().map_err(|error| GrpcError::Transport(error.to_string()))?;
        let (sender, receiver) = mpsc::sync_channel(1);
        let (http, timeout) = (self.http.clone(), self.timeout);
        runtime.spawn(async move {
            let answered = tokio::time::timeout(timeout, exchange(http, request)).await;
            // The receiver waits as long as this task runs.
            let _ = sender.send(answered.unwrap_or_else(|_| Err(GrpcError::timed_out(timeout))));
        });
        receiver.recv().unwrap_or_else(|_| Err(GrpcError::Transport("the export was given up".to_owned())))
    }

    fn request(
        &self,
        uri: Uri,
        metadata: &HeaderMap,
        message: &[u8],
    ) -> Result<Request<Full<Bytes>>, GrpcError> {
        let body = framed(message)?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.extend(metadata.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("vmcp/", env!("CARGO_PKG_VERSION"))));
        // At most 8 digits, by the specification: the longest time limit is 600,000 ms.
        let limit = HeaderValue::try_from(format!("{}m", self.timeout.as_millis()));
        headers.extend(limit.ok().map(|limit| (http::HeaderName::from_static("grpc-timeout"), limit)));
        Ok(request)
    }
}

/// Puts the prefix before a message.
fn framed(message: &[u8]) -> Result<Bytes, GrpcError> {
    let too_long = |_| GrpcError::Transport("the export is larger than 4 GiB".to_owned());
    let length = u32::try_from(message.len()).map_err(too_long)?;
    let mut body = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    body.put_u8(0);
    body.put_u32(length);
    body.put_slice(message);
    Ok(body.freeze())
}

/// Sends a request and reads its answer to the end.
async fn exchange(
    http: Client<Http2Connector, Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<Bytes, GrpcError> {
    let failed = |error: hyper_util::client::legacy::Error| {
        GrpcError::Transport(vmcp_error_chain::error_chain(&error))
    };
    let answer = http.request(request).await.map_err(failed)?;
    let (head, body) = answer.into_parts();
    let is_grpc =
        head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(GRPC.as_bytes()));
    if head.status != StatusCode::OK || !is_grpc {
        return Err(GrpcError::NotGrpc(head.status));
    }
    // A failed call may have no body and its status among the headers.
    if let Some(status) = GrpcStatus::of(&head.headers) {
        return status.into_result().map(|()| Bytes::new());
    }
    let (message, trailers) = collected(body).await?;
    let missing = || GrpcStatus::new(GrpcCode::UNKNOWN, "the answer ended without a status".to_owned());
    GrpcStatus::of(&trailers).unwrap_or_else(missing).into_result()?;
    unframed(&message)
}

/// Reads a body of at most [`MAX_ANSWER_BYTES`], and its trailers.
async fn collected(body: Incoming) -> Result<(Bytes, HeaderMap), GrpcError> {
    let limit = usize::try_from(MAX_ANSWER_BYTES).unwrap_or(usize::MAX);
    let collected = Limited::new(body, limit).collect().await;
    let collected = collected.map_err(|error| GrpcError::Transport(error.to_string()))?;
    let trailers = collected.trailers().cloned().unwrap_or_default();
    Ok((collected.to_bytes(), trailers))
}

/// Returns the message behind the prefix.
fn unframed(body: &Bytes) -> Result<Bytes, GrpcError> {
    let broken = || GrpcError::Transport("the collector's message is cut off or compressed".to_owned());
    let (prefix, message) = body.split_first_chunk::<PREFIX_BYTES>().ok_or_else(broken)?;
    let [flag, length @ ..] = *prefix;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if flag != 0 || message.len() != length {
        return Err(broken());
    }
    Ok(body.slice(PREFIX_BYTES..))
}
