//! [`Ports`]: binds the client port, the admin port and the events port, and shuts them down gracefully.

pub mod dual_stack;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use vmcp_config::Server;

use super::admin::Admin;
use super::admin::port::AdminPort;
use super::connection::ConnectionServer;
use super::connections::ConnectionLimits;
use super::events::EventsPort;
use super::stack::client_stack;
use super::tls::TlsPort;
use super::workers::Workers;
use super::{connections, open_files};
use crate::request::edge::Edge;

/// A port that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is in use, or this user may not listen on it.
    #[error("{field}: cannot listen on {address}: {source}")]
    Bind {
        /// The field of the configuration that names the address.
        field: &'static str,
        /// The configured address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The certificate of the client port cannot be used.
    #[error("{0}")]
    Tls(String),
    /// The threads that serve the ports cannot be started.
    #[error("cannot start the threads that serve the ports: {0}")]
    Threads(#[source] io::Error),
}

/// The ports, in service.
pub struct Ports {
    /// The address at which clients reach `/mcp`.
    pub client: SocketAddr,
    /// The address of the admin port.
    pub admin: SocketAddr,
    /// The address of the events port, if there is one.
    pub events: Option<SocketAddr>,
    edge: Arc<Edge>,
    stop_clients: CancellationToken,
    clients: JoinHandle<()>,
    operators: AdminPort,
    viewers: Option<EventsPort>,
}

impl Ports {
    /// Binds the ports and serves them until [`Ports::drain`].
    ///
    /// A trait object, so that the crate that waits for the ports does not compile what they serve.
    pub fn open(edge: Arc<Edge>, admin: Admin, server: &Server) -> BoxFuture<'_, Result<Ports, ServeError>> {
        Box::pin(Self::bind_and_serve(edge, admin, server))
    }

    async fn bind_and_serve(edge: Arc<Edge>, admin: Admin, server: &Server) -> Result<Ports, ServeError> {
        let (clients, client) = bind("server.listen", server.listen).await?;
        let (operators, operator) = bind("server.adminListen", server.admin_listen).await?;
        let watched = match server.events_listen {
            Some(address) => bind_events(address).await,
            None => None,
        };
        admin.serves_clients_at(client);
        let tls = TlsPort::new(&edge.engine.snapshot().config).map_err(ServeError::Tls)?;
        let workers = Workers::start().map_err(ServeError::Threads)?;
        let stack = Arc::new(client_stack(&edge, server, client));
        let connections = ConnectionServer::new(stack, edge.engine.clone(), server).with_tls(tls);
        let stop_clients = CancellationToken::new();
        let all = open_files::connection_limit(server.max_connections);
        let limits = ConnectionLimits {
            all,
            per_client: share_of_client(server.max_connections_per_client, server.max_connections, all),
        };
        let metrics = Arc::clone(edge.engine.metrics());
        // Clients first: the routes of the admin port take a millisecond to make.
        let clients = tokio::spawn(connections::serve(
            clients,
            connections,
            limits,
            workers,
            metrics,
            stop_clients.clone(),
        ));
        let (viewers, events) = watched
            .map(|(listener, address)| (EventsPort::start(listener, address, admin.clone()), address))
            .unzip();
        let operators =
            AdminPort::start(operators, operator, admin, server).inspect_err(|_| stop_clients.cancel());
        Ok(Ports {
            client,
            admin: operator,
            events,
            clients,
            operators: operators.map_err(ServeError::Threads)?,
            viewers,
            edge,
            stop_clients,
        })
    }

    /// Shuts down gracefully: accepts no new connections, ends push streams, and lets requests in flight end
    /// within `grace`. The admin port answers until then. Returns true if all requests ended in time.
    pub async fn drain(self, grace: Duration) -> bool {
        let Ports { edge, stop_clients, clients, operators, viewers, .. } = self;
        stop_clients.cancel();
        edge.close();
        let viewers = async move {
            if let Some(viewers) = viewers {
                viewers.close().await;
            }
        };
        // At once: a viewer that does not read must not take from the time of the clients.
        let (drained, ()) = tokio::join!(tokio::time::timeout(grace, clients), viewers);
        operators.close().await;
        drained.is_ok()
    }
}

/// Binds a port; port 0 yields a free port.
async fn bind(field: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |source| ServeError::Bind { field, address, source };
    let listener = dual_stack::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Binds the events port. Where another program has it, the server goes on without: calls matter more than
/// watching them.
async fn bind_events(address: SocketAddr) -> Option<(TcpListener, SocketAddr)> {
    let bound = bind("server.eventsListen", address).await;
    bound.inspect_err(|error| tracing::error!(%error, "events are not served; choose another port")).ok()
}

/// Returns the number of connections that one client may have of `all` that the limit on open files allows:
/// the same part of them as `share` is of `configured`.
fn share_of_client(share: usize, configured: usize, all: usize) -> usize {
    let configured = configured.max(1);
    let part = share.min(configured) as u128 * all as u128 / configured as u128;
    usize::try_from(part).unwrap_or(all).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_a_client_follows_the_connections_that_there_are() {
        assert_eq!(share_of_client(7_500, 10_000, 10_000), 7_500);
        assert_eq!(share_of_client(7_500, 10_000, 768), 576);
        assert_eq!(share_of_client(10_000, 10_000, 768), 768, "one client may have them all");
        assert_eq!(share_of_client(200, 100, 100), 100);
        assert_eq!(share_of_client(1, 1000, 10), 1);
    }
}
