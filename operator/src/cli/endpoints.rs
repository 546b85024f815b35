//! The endpoints of the process: `/metrics`, and `/healthz` and `/readyz` at both ports.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Weak};

use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use vmcp_exposition::Format;

use super::metrics_token;
use super::options::Options;
use super::run_error::RunError;
use crate::runtime::{Context, Metrics};

/// Readiness of this replica: ready while it stands by for the Lease, and, once it leads, after the first
/// list of every kind.
#[derive(Clone, Default)]
pub(super) struct Readiness(Arc<Mutex<Role>>);

/// Role of a replica in the leader election.
#[derive(Default)]
enum Role {
    #[default]
    Starts,
    StandsBy,
    Leads(Vec<Weak<Context>>),
}

impl Readiness {
    /// Records that another replica leads.
    pub(super) fn stand_by(&self) {
        *self.0.lock() = Role::StandsBy;
    }

    /// Records that this replica leads.
    pub(super) fn lead(&self, contexts: &[Arc<Context>]) {
        *self.0.lock() = Role::Leads(contexts.iter().map(Arc::downgrade).collect());
    }

    /// Returns the kind and phase of every resource that runs pods; none unless this replica leads.
    fn phases(&self) -> Vec<(&'static str, String)> {
        let role = self.0.lock();
        let Role::Leads(contexts) = &*role else { return Vec::new() };
        contexts.iter().filter_map(Weak::upgrade).flat_map(|context| context.phases()).collect()
    }

    fn answer(&self) -> Response {
        let waits_for = match &*self.0.lock() {
            Role::Starts => Some("starting\n".to_owned()),
            Role::StandsBy => None,
            Role::Leads(contexts) => {
                let pending =
                    contexts.iter().filter_map(Weak::upgrade).find_map(|context| context.pending_lists());
                pending.map(|pending| format!("not listed yet: {pending}\n"))
            }
        };
        match waits_for {
            None => "ready\n".into_response(),
            Some(waits_for) => (StatusCode::SERVICE_UNAVAILABLE, waits_for).into_response(),
        }
    }
}

/// Listens at the addresses of the options; the future that is returned serves.
pub(super) async fn serve(
    options: &Options,
    metrics: &Arc<Metrics>,
    readiness: &Readiness,
) -> Result<BoxFuture<'static, ()>, RunError> {
    let (metrics, token_file) = (metrics.clone(), options.metrics_token_file.clone());
    let counted = readiness.clone();
    let text = move |headers: HeaderMap| async move {
        if let Err(refusal) = metrics_token::check(token_file.as_deref(), &headers).await {
            return refusal.into_response();
        }
        metrics.count_resources(counted.phases());
        let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
        let format = Format::of_accept(accept.unwrap_or_default());
        let kind = [(header::CONTENT_TYPE, format.content_type())];
        (StatusCode::OK, kind, format.render(metrics.text())).into_response()
    };
    let readiness = readiness.clone();
    let health = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(move || async move { readiness.answer() }));
    let mut servers = vec![(options.metrics_listen, health.clone().route("/metrics", get(text)))];
    if options.health_listen != options.metrics_listen {
        servers.push((options.health_listen, health));
    }
    let mut running = FuturesUnordered::new();
    for (address, router) in servers {
        let listener = listen(address).await.map_err(|source| RunError::Listen { address, source })?;
        running.push(async move { axum::serve(listener, router).await });
    }
    Ok(async move { drop(running.next().await) }.boxed())
}

/// Listens at an address. `[::]` is every address of both families, or of IPv4 alone where IPv6 is off.
async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && error.kind() != ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use tokio::net::TcpStream;

    use super::*;
    use crate::cli::Cli;

    #[tokio::test]
    async fn both_families_reach_the_endpoints() {
        let default = Cli::parse_from(["vmcp-operator", "run"]).options.health_listen;
        assert_eq!(default, (Ipv6Addr::UNSPECIFIED, 8081).into());
        let listener = listen((Ipv6Addr::UNSPECIFIED, 0).into()).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("IPv4");
        if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.is_ok() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.expect("IPv6");
        }
    }

    #[test]
    fn a_replica_is_ready_once_it_stands_by_and_not_while_it_starts() {
        let readiness = Readiness::default();
        assert_eq!(readiness.answer().status(), StatusCode::SERVICE_UNAVAILABLE);
        readiness.stand_by();
        assert_eq!(readiness.answer().status(), StatusCode::OK);
    }
}
