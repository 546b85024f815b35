//! [`Ports`]: binds the client port and the admin port, and shuts both down gracefully.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use vmcp_config::Server;

use super::admin::{self, Admin};
use super::connection::ConnectionServer;
use super::connections::ConnectionLimits;
use super::stack::client_stack;
use super::tls::TlsPort;
use super::workers::Workers;
use super::{connections, dual_stack, open_files};
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
    /// The threads that serve clients cannot be started.
    #[error("cannot start the threads that serve clients: {0}")]
    Threads(#[source] io::Error),
}

/// Both ports, in service.
pub struct Ports {
    /// The address at which clients reach `/mcp`.
    pub client: SocketAddr,
    /// The address of the admin port.
    pub admin: SocketAddr,
    edge: Arc<Edge>,
    stop_clients: CancellationToken,
    stop_admin: CancellationToken,
    clients: JoinHandle<()>,
    operators: JoinHandle<io::Result<()>>,
}

impl Ports {
    /// Binds both ports and serves them until [`Ports::drain`].
    pub async fn open(edge: Arc<Edge>, admin: Admin, server: &Server) -> Result<Ports, ServeError> {
        let (clients, client) = bind("server.listen", server.listen).await?;
        let (operators, operator) = bind("server.adminListen", server.admin_listen).await?;
        let tls = TlsPort::new(&edge.engine.snapshot().config).map_err(ServeError::Tls)?;
        let workers = Workers::start().map_err(ServeError::Threads)?;
        let stack = Arc::new(client_stack(&edge, server, client));
        let connections = ConnectionServer::new(stack, edge.engine.clone(), server).with_tls(tls);
        let (stop_clients, stop_admin) = (CancellationToken::new(), CancellationToken::new());
        Ok(Ports {
            client,
            admin: operator,
            clients: tokio::spawn(connections::serve(
                clients,
                connections,
                ConnectionLimits {
                    all: open_files::connection_limit(server.max_connections),
                    per_client: server.max_connections_per_client,
                },
                workers,
                Arc::clone(edge.engine.metrics()),
                stop_clients.clone(),
            )),
            operators: run(operators, admin::router(admin, operator), &stop_admin),
            edge,
            stop_clients,
            stop_admin,
        })
    }

    /// Shuts down gracefully: accepts no new connections, ends push streams, and lets requests in flight end
    /// within `grace`. The admin port answers until then. Returns true if all requests ended in time.
    pub async fn drain(self, grace: Duration) -> bool {
        self.stop_clients.cancel();
        self.edge.close();
        let drained = tokio::time::timeout(grace, self.clients).await.is_ok();
        self.stop_admin.cancel();
        // Idle keep-alive connections of probes may outlast the grace; they carry nothing that could be lost.
        let _ = tokio::time::timeout(Duration::from_millis(100), self.operators).await;
        drained
    }
}

/// Binds a port; port 0 yields one that is free.
async fn bind(field: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |source| ServeError::Bind { field, address, source };
    let listener = dual_stack::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Serves the admin port until `stop`.
fn run(listener: TcpListener, router: Router, stop: &CancellationToken) -> JoinHandle<io::Result<()>> {
    let stop = stop.clone().cancelled_owned();
    tokio::spawn(async move { axum::serve(listener, router).with_graceful_shutdown(stop).await })
}
