//! [`Edge`]: the state that all requests of this process share.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use vmcp_backend::SessionId;
use vmcp_json::text;
use vmcp_wire::keys::REQUEST_STATE;
use vmcp_wire::methods;
use vmcp_wire::owned::{OwnedNotification, OwnedRequest};
use vmcp_wire::sealed::KeyRing;
use vmcp_wire::sealed::request_state::Continuation;

use super::client_state::consents::Consents;
use super::client_state::parked::{self, ParkedCalls};
use super::client_state::relayed_state;
use super::in_flight::InFlightRequests;
use crate::push::context_changes;
use crate::push::downstream_router::DownstreamRouter;
use crate::push::own_updates;
use crate::push::server_push::ServerPush;
use crate::push::upkeep;
use crate::session::client_instances::ClientInstances;
use crate::session::keys::{self, HOME_RENEWAL};
use crate::session::pending_questions::PendingQuestions;
use crate::session::sessions::Sessions;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::Engine;
use vmcp_engine::random::now;

/// The shared state behind all client connections of this process.
pub struct Edge {
    pub(crate) engine: Engine,
    pub(crate) sessions: Sessions,
    pub(crate) instances: ClientInstances,
    pub(crate) in_flight: Arc<InFlightRequests>,
    pub(crate) push: Arc<ServerPush>,
    pub(crate) questions: Arc<PendingQuestions>,
    pub(super) parked: Arc<ParkedCalls>,
    pub(super) consents: Consents,
    pub(crate) closing: CancellationToken,
}

impl Edge {
    /// Creates the edge of `engine`, whose backends deliver to `router`. Spawns the upkeep task, so a tokio
    /// runtime must be running.
    pub fn new(engine: Engine, router: Arc<DownstreamRouter>) -> Arc<Edge> {
        let closing = CancellationToken::new();
        let questions = Arc::clone(&router.questions);
        let push = Arc::new(ServerPush { engine: engine.clone(), router, closing: closing.clone() });
        let metrics = Arc::clone(engine.metrics());
        push.router.serve(&push);
        tokio::spawn(context_changes::run(Arc::downgrade(&push)));
        tokio::spawn(upkeep::run(Arc::downgrade(&push)));
        tokio::spawn(own_updates::run(Arc::downgrade(&push)));
        let edge = Arc::new(Edge {
            engine,
            sessions: Sessions::default(),
            instances: ClientInstances::default(),
            in_flight: Arc::default(),
            push,
            questions,
            parked: Arc::new(ParkedCalls::new(parked::PARKED_CALL_TIMEOUT, &metrics)),
            consents: Consents::default(),
            closing,
        });
        tokio::spawn(follow_home(Arc::downgrade(&edge)));
        edge
    }

    /// Returns the engine behind this edge.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the keys that seal and open what clients hand back: session ids and request states.
    pub(crate) fn ring(&self) -> Arc<KeyRing> {
        self.engine.snapshot().ring()
    }

    /// Returns the sealed address of this process, for ids of objects that live here only; empty without one.
    pub(crate) fn home(&self) -> String {
        keys::seal_home(&self.ring(), &self.engine.snapshot().config, now())
    }

    /// Returns the address of this process, for tokens that are sealed as a whole; empty without one.
    pub(crate) fn home_address(&self) -> String {
        let address = self.engine.snapshot().config.server.peer_address;
        address.map(|address| address.to_string()).unwrap_or_default()
    }

    /// Returns the address of the process in which the call waits that `request` resumes, if it is another.
    pub(crate) fn parked_elsewhere(
        &self,
        principal: &Principal,
        request: &OwnedRequest,
    ) -> Option<SocketAddr> {
        let state = text::unquoted(request.params().get(REQUEST_STATE)?)?;
        let binding = relayed_state::binding(principal, request);
        match Continuation::open(&self.ring(), &state, &binding, now()).ok()? {
            Continuation::Parked { process, home, .. } if self.parked.is_elsewhere(process) => {
                home.parse().ok()
            }
            _ => None,
        }
    }

    /// Handles a notification from a client: cancels a request, or tells backends that the client's roots
    /// changed. Any other notification is ignored.
    pub(crate) fn notified(&self, session: SessionId, notification: &OwnedNotification) {
        match notification.method() {
            methods::CANCELLED => {
                let id = notification.params().get("requestId");
                if let Some(id) = id.and_then(|id| serde_json::from_str(id).ok()) {
                    self.in_flight.cancel(session, id);
                }
            }
            methods::ROOTS_CHANGED => {
                for backend in self.engine.snapshot().backends.values() {
                    backend.roots_changed(session);
                }
            }
            _ => {}
        }
    }

    /// Ends all push streams, so that connections can drain. Requests in flight go on.
    pub fn close(&self) {
        self.closing.cancel();
    }
}

/// Keeps the address in the ids of questions that of the configuration in force, sealed with its first key
/// within the last [`HOME_RENEWAL`].
async fn follow_home(edge: Weak<Edge>) {
    let Some(mut configurations) = edge.upgrade().map(|edge| edge.engine.configurations()) else { return };
    loop {
        match edge.upgrade() {
            Some(edge) => edge.questions.set_home(edge.home()),
            None => return,
        }
        if let Ok(Err(_)) = timeout(HOME_RENEWAL, configurations.changed()).await {
            return;
        }
    }
}
