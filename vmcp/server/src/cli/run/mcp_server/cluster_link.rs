//! [`ClusterLink`]: the way to a VirtualMCPServer of a cluster, by the client port of one ready pod, which is
//! forwarded to this machine. It makes the same [`ServerLink`] as a server of this machine.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use vmcp_config::Secret;

use super::http_carrier::HttpCarrier;
use super::local_answers::NOT_RUNNING;
use super::server_link::ServerLink;
use crate::cli::console::failure::CommandFailure;
use crate::cli::kubernetes::cluster_server::ClusterServer;
use crate::cli::kubernetes::port_forward::PortForward;

/// Client port of a pod.
const CLIENT_PORT: u16 = 4483;
/// Lines that wait for the server or the client.
const QUEUE: usize = 256;
/// Time after a look at a cluster without a ready pod, before the next one: each is two processes.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Time to find a ready pod and to forward its port; the client waits for it.
const JOIN_TIMEOUT: Duration = Duration::from_secs(15);

/// A VirtualMCPServer, as one client sees it.
#[derive(Debug)]
pub(super) struct ClusterLink {
    pub(super) server: ClusterServer,
    /// The part that the client sees; everything without one.
    pub(super) profile: Option<String>,
    /// Key or token for the MCP endpoint.
    pub(super) token: Option<Secret>,
    /// The last look that found no ready pod, and the answer to give until the next one.
    pub(super) absent: Mutex<Option<(Instant, String)>>,
}

impl ClusterLink {
    /// Forgets the last look: a start may have changed its result.
    pub(super) fn look_again(&self) {
        *self.absent.lock() = None;
    }

    /// Connects to a ready pod; `Err` has the reason without one.
    pub(super) async fn join(&self) -> Result<ServerLink, String> {
        let recent = self.absent.lock().clone().filter(|(since, _)| since.elapsed() < LOOK_INTERVAL);
        if let Some((_, reason)) = recent {
            return Err(reason);
        }
        let joined = timeout(JOIN_TIMEOUT, self.connect()).await;
        let joined = joined.unwrap_or_else(|_| Err("the cluster does not answer".to_owned()));
        *self.absent.lock() = joined.as_ref().err().map(|reason| (Instant::now(), reason.clone()));
        joined
    }

    async fn connect(&self) -> Result<ServerLink, String> {
        let server = self.server.clone();
        let look = move || -> Result<Result<String, String>, CommandFailure> {
            let resource = server.read()?;
            if resource.spec.suspend {
                return Ok(Err(NOT_RUNNING.to_owned()));
            }
            let generation = resource.metadata.generation;
            let reason =
                || format!("no pod of {} is ready: {}", server.name(), resource.progress(generation));
            Ok(server.ready_pod()?.ok_or_else(reason))
        };
        let found = tokio::task::spawn_blocking(look).await;
        let found = found.map_err(|_| "the look at the cluster was cancelled".to_owned())?;
        let pod = found.map_err(|failure| words(&failure))??;
        let forward = PortForward::open(&self.server, &pod, CLIENT_PORT).await;
        let forward = forward.map_err(|failure| words(&failure))?;
        let path = self.profile.as_ref().map(|profile| format!("/{profile}")).unwrap_or_default();
        let url = format!("http://127.0.0.1:{}/mcp{path}", forward.port);
        let (to_server, outgoing) = mpsc::channel(QUEUE);
        let (incoming, from_server) = mpsc::channel(QUEUE);
        let carrier = HttpCarrier::new(url, self.token.clone(), incoming)?;
        let task = AbortOnDropHandle::new(tokio::spawn(carry(carrier, outgoing, forward)));
        Ok(ServerLink::new(to_server, from_server, vec![task]))
    }
}

/// Carries lines until the client has sent its last one, or the connection to the pod ends.
async fn carry(carrier: HttpCarrier, lines: mpsc::Receiver<bytes::Bytes>, mut forward: PortForward) {
    tokio::select! {
        () = carrier.run(lines) => {}
        failure = forward.ended() => tracing::warn!("{}", failure.message()),
    }
}

/// Returns a failure in one sentence, with its remedy: a model reads it.
fn words(failure: &CommandFailure) -> String {
    match failure.remedy_text() {
        Some(remedy) => format!("{}; {remedy}", failure.message()),
        None => failure.message().to_owned(),
    }
}
