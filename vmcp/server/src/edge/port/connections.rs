//! Connections of the client port: accepted within a limit, served as HTTP/1.1 or HTTP/2 (by prior
//! knowledge), drained at shutdown.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vmcp_config::Server;

use super::socket::ClientSocket;
use super::workers::Workers;
use crate::edge::transport::http::HttpTransport;
use crate::engine::Engine;

/// Bytes of a request's headers; hyper also takes at most 100 fields. Larger ones get HTTP 431. A sealed
/// session id may need 6 KiB.
const MAX_HEADER_BYTES: u32 = 64 * 1024;
/// Bytes of read-ahead, and of unsent output, that one connection may hold.
const MAX_BUFFER_BYTES: usize = 128 * 1024;
/// Concurrent requests on one HTTP/2 connection; further ones wait for a stream.
const MAX_HTTP2_STREAMS: u32 = 128;
/// Streams that an HTTP/2 client may reset before they are served; beyond it the connection is closed (rapid
/// reset attack).
const MAX_HTTP2_PENDING_RESETS: usize = 32;
/// Interval of keep-alive pings on an HTTP/2 connection.
const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(30);
/// Time to write a refusal; a client that does not read it by then is dropped.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(100);
/// Pause after a failed accept, when the process has no more file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Response to a connection beyond `server.maxConnections`, written without reading the request.
const REFUSAL_RESPONSE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n\
    content-type: text/plain\r\ncontent-length: 60\r\n\r\nthe limit of connections is reached (server.maxConnections)\n";

/// Serves connections on `workers` until `stop`, then waits for the requests in flight.
pub(super) async fn serve(
    listener: TcpListener,
    transport: HttpTransport,
    settings: Server,
    workers: Workers,
    stop: CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(settings.max_connections));
    let connections = TaskTracker::new();
    let protocols = Arc::new(Protocols::new(transport, &settings));
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    wait_out(&error).await;
                    continue;
                }
            },
        };
        if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
            // The socket leaves the event loop that accepted it for that of its worker.
            let Ok(stream) = stream.into_std() else { continue };
            let (protocols, stop, place) = (Arc::clone(&protocols), stop.clone(), workers.place());
            let runtime = place.runtime().clone();
            connections.spawn_on(
                async move {
                    if let Ok(stream) = TcpStream::from_std(stream) {
                        protocols.serve(stream, stop).await;
                    }
                    drop((permit, place));
                },
                &runtime,
            );
        } else {
            protocols.transport.engine().metrics().client_connections_refused.inc();
            connections.spawn(refuse(stream));
        }
    }
    // Closed before the wait: a client that connects now is refused by the system and can try another
    // process.
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// The HTTP servers of both versions, with their limits.
struct Protocols {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    transport: HttpTransport,
    receive: Duration,
    write: Duration,
}

impl Protocols {
    /// Configures both servers.
    fn new(transport: HttpTransport, settings: &Server) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(settings.receive_timeout)
            .max_header_size(MAX_HEADER_BYTES as usize)
            .max_buf_size(MAX_BUFFER_BYTES);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_header_list_size(MAX_HEADER_BYTES)
            .max_concurrent_streams(MAX_HTTP2_STREAMS)
            .max_pending_accept_reset_streams(MAX_HTTP2_PENDING_RESETS)
            .max_send_buf_size(MAX_BUFFER_BYTES)
            .keep_alive_interval(HTTP2_PING_INTERVAL);
        Self { http1, http2, transport, receive: settings.receive_timeout, write: settings.write_timeout }
    }

    /// Serves one connection to its end.
    async fn serve(&self, stream: TcpStream, stop: CancellationToken) {
        let engine = self.transport.engine();
        let _counted = ConnectionGauge::begin(engine.clone());
        // A client that sends nothing at all is dropped after the receive timeout. Three bytes tell the
        // versions apart: HTTP/2 begins with "PRI".
        let mut first = [0; 3];
        tokio::select! {
            begun = timeout(self.receive, stream.peek(&mut first)) => {
                let Ok(Ok(1..)) = begun else { return };
            }
            () = stop.cancelled() => return,
        }
        let socket = TokioIo::new(ClientSocket::new(stream, engine.clone(), self.write));
        let transport = self.transport.clone();
        let service = service_fn(move |request| {
            let transport = transport.clone();
            async move { Ok::<_, Infallible>(transport.serve(request).await) }
        });
        let ended = if first == *b"PRI" {
            let mut connection = pin!(self.http2.serve_connection(socket, service));
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            }
        } else {
            let mut connection = pin!(self.http1.serve_connection(socket, service));
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            }
        };
        if let Err(error) = ended {
            // A client that disconnects, is too slow or speaks no HTTP is no fault of the server.
            tracing::debug!(%error, "a client's connection ended");
        }
    }
}

/// Tells a client that the server is full. A client that does not read is dropped.
async fn refuse(mut stream: TcpStream) {
    let _ = timeout(REFUSAL_TIMEOUT, async {
        stream.write_all(REFUSAL_RESPONSE).await?;
        stream.shutdown().await
    })
    .await;
}

/// Waits out a failed accept. A connection that died before it was accepted needs no pause; a lack of file
/// descriptors passes when others are closed.
async fn wait_out(error: &io::Error) {
    if !matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    ) {
        tracing::error!(%error, "cannot accept connections; raise the limit of open files if this persists");
        sleep(ACCEPT_RETRY_DELAY).await;
    }
}

/// Counts an open connection in the metrics until it is dropped.
struct ConnectionGauge(Engine);

impl ConnectionGauge {
    /// Counts a connection.
    fn begin(engine: Engine) -> Self {
        engine.metrics().client_connections.inc();
        Self(engine)
    }
}

impl Drop for ConnectionGauge {
    fn drop(&mut self) {
        self.0.metrics().client_connections.dec();
    }
}
