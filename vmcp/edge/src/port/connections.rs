//! Connections of the client port: accepted within a limit, drained at shutdown.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::ConnectionServer;
use super::workers::Workers;
use crate::transport::http::exchange::{Arrival, Service};
use vmcp_engine::access::identity::Principal;
use vmcp_engine::access::principal_shares::{LimitReached, PrincipalShares};
use vmcp_engine::telemetry::metrics::Metrics;

/// Time to write a refusal; a client that does not read it by then is dropped.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(100);
/// Pause after a failed accept, when the process has no more file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Response to a connection beyond `server.maxConnections`, written without reading the request.
const REFUSAL_RESPONSE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n\
    content-type: text/plain\r\ncontent-length: 60\r\n\r\nthe limit of connections is reached (server.maxConnections)\n";
/// Response to a connection beyond `server.maxConnectionsPerClient`.
const SHARE_RESPONSE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n\
    content-type: text/plain\r\ncontent-length: 63\r\n\r\ntoo many connections of yours (server.maxConnectionsPerClient)\n";

/// Limits on the connections of the client port.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionLimits {
    /// Most at a time.
    pub(super) all: usize,
    /// Most of one client at a time.
    pub(super) per_client: usize,
}

/// Serves connections within `limits` on `workers` until `stop`, then waits for the requests in flight.
pub(super) async fn serve<S: Service<Arrival> + Clone>(
    listener: TcpListener,
    server: ConnectionServer<S>,
    limits: ConnectionLimits,
    workers: Workers,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) {
    let shares = PrincipalShares::new("connections", limits.per_client, limits.all, &metrics);
    let connections = TaskTracker::new();
    let server = Arc::new(server);
    loop {
        // Connections in the backlog at shutdown are served: closing the listener would reset them.
        let (stream, from) = tokio::select! {
            biased;
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    wait_out(&error).await;
                    continue;
                }
            },
            () = stop.cancelled() => break,
        };
        let client = Principal { address: Some(from.ip()), ..Principal::default() };
        let held = match shares.take(client.key()) {
            Ok(held) => held,
            Err(reached) => {
                metrics.client_connections_refused.inc();
                let of_client = matches!(reached, LimitReached::OfPrincipal(share) if share < limits.all);
                connections.spawn(refuse(stream, if of_client { SHARE_RESPONSE } else { REFUSAL_RESPONSE }));
                continue;
            }
        };
        // The socket leaves the event loop that accepted it for that of its worker.
        let Ok(stream) = stream.into_std() else { continue };
        // A token of its own: each turn of a connection looks at it, under a lock that all holders of one
        // token share, on whatever core they are.
        let (server, stop, place) = (Arc::clone(&server), stop.child_token(), workers.place());
        let runtime = place.runtime().clone();
        let counted = ConnectionGauge::begin(Arc::clone(&metrics));
        connections.spawn_on(
            async move {
                if let Ok(stream) = TcpStream::from_std(stream) {
                    server.serve(stream, stop).await;
                }
                drop((held, place, counted));
            },
            &runtime,
        );
    }
    // Closed before the wait: a client that connects now is refused by the system and can try another
    // process.
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Counts an open connection in the metrics until it is dropped.
struct ConnectionGauge(Arc<Metrics>);

impl ConnectionGauge {
    /// Counts a connection.
    fn begin(metrics: Arc<Metrics>) -> Self {
        metrics.client_connections.inc();
        Self(metrics)
    }
}

impl Drop for ConnectionGauge {
    fn drop(&mut self) {
        self.0.client_connections.dec();
    }
}

/// Tells a client that the server is full. A client that does not read is dropped.
pub(super) async fn refuse(mut stream: TcpStream, response: &'static [u8]) {
    let _ = timeout(REFUSAL_TIMEOUT, async {
        stream.write_all(response).await?;
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
