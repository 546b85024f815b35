//! [`ConnectionServer`]: serves one connection of a client, as HTTP/1.1 or as HTTP/2, by prior knowledge or
//! by the choice of TLS.
//!
//! One clock a connection bounds the handshake, the headers of a request and idleness alike: a connection
//! without a request under way for `server.receiveTimeout` is closed. It costs no timer operation a request.
//!
//! A resting HTTP/1.1 connection keeps nothing but its socket: the buffers and state of hyper (some 20 KiB)
//! are dropped after a moment of rest, and made again when the client sends something.

mod client_address;
mod stream_executor;
mod wake_gate;

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderValue, Request};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service as HyperService, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use vmcp_access::identity::client_certificate::ClientCertificate;
use vmcp_config::Server;

use super::socket::{ClientSocket, ClientStream};
use super::tls::{Accepted, TlsPort};
use crate::session::connection_id::ConnectionId;
use crate::transport::http::activity::Activity;
use crate::transport::http::exchange::{Arrival, Response, Service};
use client_address::client_address;
use stream_executor::StreamExecutor;
use vmcp_engine::engine::Engine;
use wake_gate::poll_when_woken;

/// Bytes of a request's headers; hyper also takes at most 100 fields. Larger ones get HTTP 431. A sealed
/// session id may need 6 KiB.
const MAX_HEADER_BYTES: u32 = 32 * 1024;
/// Bytes of read-ahead that an HTTP/1.1 connection may hold. A head must fit.
const MAX_BUFFER_BYTES: usize = MAX_HEADER_BYTES as usize;
/// Bytes of unsent output that an HTTP/2 stream may hold.
const MAX_HTTP2_SEND_BYTES: usize = 128 * 1024;
/// Concurrent requests on one HTTP/2 connection; further ones wait for a stream.
const MAX_HTTP2_STREAMS: u32 = 128;
/// Streams that an HTTP/2 client may reset before they are served; beyond it the connection is closed (rapid
/// reset attack).
const MAX_HTTP2_PENDING_RESETS: usize = 32;
/// Interval of keep-alive pings on an HTTP/2 connection.
const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(30);
/// Rest after which an HTTP/1.1 connection gives up its buffers. A busy client's pauses are shorter.
const REST: Duration = Duration::from_millis(100);
/// Time for an idle client to close a connection that the server is about to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time at shutdown in which an idle HTTP/1.1 connection still takes a request: one that the client sent
/// before it could know of the shutdown. Its answer says `Connection: close`.
const LAST_REQUEST_TIMEOUT: Duration = Duration::from_millis(200);

/// Serves connections with one stack of layers.
pub(super) struct ConnectionServer<S> {
    http1: http1::Builder,
    tls: Option<TlsPort>,
    stack: S,
    engine: Engine,
    receive: Duration,
    write: Duration,
}

/// The outcome of driving a connection.
enum Driven<T> {
    Ended(T),
    /// No request has been under way for the limit, since this moment.
    Idle(Instant),
}

impl<S: Service<Arrival> + Clone> ConnectionServer<S> {
    /// Serves `stack` within the limits of `settings`.
    pub(super) fn new(stack: S, engine: Engine, settings: &Server) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            .header_read_timeout(None)
            .max_header_size(MAX_HEADER_BYTES as usize)
            .max_buf_size(MAX_BUFFER_BYTES);
        let (receive, write) = (settings.receive_timeout, settings.write_timeout);
        Self { http1, tls: None, stack, engine, receive, write }
    }

    /// Serves TLS alone.
    pub(super) fn with_tls(self, tls: Option<TlsPort>) -> Self {
        Self { tls, ..self }
    }

    /// Serves one connection to its end.
    pub(super) async fn serve(&self, stream: TcpStream, stop: CancellationToken) {
        let Ok(from) = stream.peer_addr() else { return };
        let mut request = RequestContext {
            stack: self.stack.clone(),
            engine: self.engine.clone(),
            from,
            connection: ConnectionId::next(),
            certificate: None,
        };
        // Three bytes tell the versions apart: HTTP/2 begins with "PRI".
        let mut first = [0; 3];
        if !wakes(&stream, &mut first, Instant::now() + self.receive, &stop).await {
            return;
        }
        let (stream, is_http2) = match &self.tls {
            None => (ClientStream::Plain(stream), first == *b"PRI"),
            Some(tls) => {
                let snapshot = self.engine.snapshot();
                match timeout(self.receive, tls.accept(stream, &snapshot.config)).await {
                    Ok(Ok(Accepted { stream, is_http2, certificate })) => {
                        request.certificate = certificate;
                        (ClientStream::Tls(Box::new(stream)), is_http2)
                    }
                    Ok(Err(error)) => return tracing::debug!(%error, address = %from, "no TLS with a client"),
                    Err(_) => return,
                }
            }
        };
        let socket = ClientSocket::new(stream, self.engine.clone(), self.write);
        let ended = if is_http2 {
            self.serve_http2(socket, request, stop).await
        } else {
            self.serve_http1(socket, request, stop).await
        };
        if let Err(error) = ended {
            // A client that disconnects, is too slow or speaks no HTTP is at fault itself.
            tracing::debug!(%error, "a client's connection ended");
        }
    }

    /// Serves HTTP/1.1.
    async fn serve_http1(
        &self,
        mut socket: ClientSocket,
        request: RequestContext<S>,
        stop: CancellationToken,
    ) -> hyper::Result<()> {
        // The first rest is short; a rest that half a head interrupts is not. TLS may hold bytes that the
        // socket does not show, so that its connections keep their buffers.
        let mut rest = if socket.plain().is_some() { REST } else { self.receive };
        loop {
            let activity = socket.activity();
            let service = request.clone().service(activity.clone());
            // Boxed, so that the task of a resting connection is small.
            let mut connection = Box::pin(self.http1.serve_connection(TokioIo::new(socket), service));
            let resting_since = tokio::select! {
                biased;
                () = stop.cancelled() => {
                    activity.close_after_answer();
                    if let Driven::Ended(ended) =
                        drive(connection.as_mut(), &activity, LAST_REQUEST_TIMEOUT).await
                    {
                        return ended;
                    }
                    connection.as_mut().graceful_shutdown();
                    return drive(connection.as_mut(), &activity, CLOSE_TIMEOUT).await.result();
                }
                driven = drive(connection.as_mut(), &activity, rest) => match driven {
                    Driven::Ended(ended) => return ended,
                    Driven::Idle(since) => since,
                },
            };
            let parts = Pin::into_inner(connection).into_parts();
            socket = parts.io.into_inner();
            let Some(plain) = socket.plain().filter(|_| rest < self.receive) else { return Ok(()) };
            if parts.read_buf.is_empty() {
                if !wakes(plain, &mut [0], resting_since + self.receive, &stop).await {
                    return Ok(());
                }
                rest = REST;
            } else {
                // The head of a request has begun to arrive: its client has the full time for it.
                socket.unread(parts.read_buf);
                rest = self.receive;
            }
        }
    }

    /// Serves HTTP/2.
    async fn serve_http2(
        &self,
        socket: ClientSocket,
        request: RequestContext<S>,
        stop: CancellationToken,
    ) -> hyper::Result<()> {
        let executor = StreamExecutor::new(self.engine.clone(), self.write);
        let mut http2 = http2::Builder::new(executor.clone());
        http2
            .timer(TokioTimer::new())
            .max_header_list_size(MAX_HEADER_BYTES)
            .max_concurrent_streams(MAX_HTTP2_STREAMS)
            .max_pending_accept_reset_streams(MAX_HTTP2_PENDING_RESETS)
            .max_send_buf_size(MAX_HTTP2_SEND_BYTES)
            .keep_alive_interval(HTTP2_PING_INTERVAL);
        let activity = socket.activity();
        let service = executor.watch(request.service(activity.clone()));
        let mut connection = Box::pin(http2.serve_connection(TokioIo::new(socket), service));
        tokio::select! {
            driven = drive(connection.as_mut(), &activity, self.receive) => {
                if let Driven::Ended(ended) = driven {
                    return ended;
                }
            }
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                return drive(connection.as_mut(), &activity, CLOSE_TIMEOUT).await.result();
            }
        }
        connection.as_mut().graceful_shutdown();
        timeout(CLOSE_TIMEOUT, connection).await.unwrap_or(Ok(()))
    }
}

/// Waits until the client sends something, without buffers. Returns false if the client does not until
/// `deadline` or soon after `stop`, or closes the connection.
async fn wakes(stream: &TcpStream, first: &mut [u8], deadline: Instant, stop: &CancellationToken) -> bool {
    let begun = tokio::select! {
        begun = timeout_at(deadline, stream.peek(first)) => begun,
        () = stop.cancelled() => timeout(LAST_REQUEST_TIMEOUT, stream.peek(first)).await,
    };
    matches!(begun, Ok(Ok(1..)))
}

impl<E> Driven<Result<(), E>> {
    /// Returns the result of a connection that was to be closed.
    fn result(self) -> Result<(), E> {
        match self {
            Driven::Ended(ended) => ended,
            Driven::Idle(_) => Ok(()),
        }
    }
}

/// Polls a connection until it ends, or no request has been under way for `limit`.
async fn drive<C: Future>(
    mut connection: Pin<&mut C>,
    activity: &Activity,
    limit: Duration,
) -> Driven<C::Output> {
    let (mut idle_since, mut begun) = (Some(Instant::now()), activity.begun());
    let mut alarm = pin!(sleep_until(Instant::now() + limit));
    let mut armed = true;
    std::future::poll_fn(move |context| {
        loop {
            if let Poll::Ready(ended) = connection.as_mut().poll(context) {
                return Poll::Ready(Driven::Ended(ended));
            }
            // hyper notices when it is polled again that the body has no reader. At once: in a flood of
            // refused bodies each connection would else keep its buffers until all others had their turn.
            if !activity.take_refused() {
                break;
            }
        }
        if activity.is_busy() {
            idle_since = None;
        } else if idle_since.is_none() || begun != activity.begun() {
            idle_since = Some(Instant::now());
        }
        begun = activity.begun();
        // The alarm is moved when it fires, not with each request; during a long one it is off.
        if let (false, Some(since)) = (armed, idle_since) {
            alarm.as_mut().reset(since + limit);
            armed = true;
        }
        while armed {
            ready!(alarm.as_mut().poll(context));
            match idle_since {
                Some(since) if since.elapsed() >= limit => return Poll::Ready(Driven::Idle(since)),
                Some(since) => alarm.as_mut().reset(since + limit),
                None => armed = false,
            }
        }
        Poll::Pending
    })
    .await
}

/// Everything a request of this connection needs.
#[derive(Clone)]
struct RequestContext<S> {
    stack: S,
    engine: Engine,
    from: SocketAddr,
    connection: ConnectionId,
    certificate: Option<Arc<ClientCertificate>>,
}

impl<S: Service<Arrival> + Clone> RequestContext<S> {
    /// Returns the service of hyper, which counts its requests in `activity`.
    fn service(
        self,
        activity: Activity,
    ) -> impl HyperService<Request<Incoming>, Response = Response, Error = Infallible, Future: Send + 'static>
    + use<S> {
        service_fn(move |request: Request<Incoming>| {
            let (stack, snapshot, from) = (self.stack.clone(), self.engine.snapshot(), self.from);
            let (connection, certificate) = (self.connection, self.certificate.clone());
            let (reading, answering, activity) = (activity.begin(), activity.begin(), activity.clone());
            // Boxed: hyper moves the future of each request that it begins to serve, and the state of all
            // layers has 9 KB.
            Box::pin(async move {
                let (mut head, body) = request.into_parts();
                if let Some(certificate) = certificate {
                    head.extensions.insert(certificate);
                }
                let (peer, port) = (from.ip(), from.port());
                let from = client_address(peer, &head.headers, &snapshot.config.server.trusted_proxies);
                let port = (from.to_canonical() == peer.to_canonical()).then_some(port);
                let head = Box::new(head);
                let arrival = Arrival { head, body, reading, from, port, connection, snapshot };
                let mut response = poll_when_woken(pin!(stack.call(arrival))).await;
                response.body_mut().end(answering);
                if activity.closes_after_answer() {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok(response)
            })
        })
    }
}
