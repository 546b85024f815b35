//! [`Edge`]: the state that all requests of this process share.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use vmcp_backend::SessionId;
use vmcp_wire::envelope::Notification;
use vmcp_wire::methods;
use vmcp_wire::params::Params;
use vmcp_wire::sealed::{KeyError, KeyRing};

use super::in_flight::InFlight;
use super::parked::{self, Parked};
use crate::edge::push::listeners::Listeners;
use crate::edge::push::renewal;
use crate::edge::push::server_push::ServerPush;
use crate::edge::session::keys::Keys;
use crate::edge::session::questions::Questions;
use crate::edge::session::sessions::Sessions;
use crate::engine::Engine;

/// The shared state behind all client connections of this process.
pub struct Edge {
    pub(crate) engine: Engine,
    keys: Keys,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) push: Arc<ServerPush>,
    pub(crate) questions: Arc<Questions>,
    pub(super) parked: Arc<Parked>,
    pub(crate) closing: CancellationToken,
}

impl Edge {
    /// An edge in front of `engine`, whose backends deliver to `listeners`. Needs a tokio runtime.
    pub fn new(engine: Engine, listeners: Arc<Listeners>) -> Result<Arc<Edge>, KeyError> {
        let keys = Keys::new(&engine.snapshot().config)?;
        let (sessions, closing) = (Arc::<Sessions>::default(), CancellationToken::new());
        let questions = Arc::clone(&listeners.questions);
        let push = Arc::new(ServerPush {
            engine: engine.clone(),
            listeners,
            sessions: Arc::clone(&sessions),
            closing: closing.clone(),
        });
        tokio::spawn(renewal::run(Arc::downgrade(&push)));
        Ok(Arc::new(Edge {
            engine,
            keys,
            sessions,
            in_flight: Arc::default(),
            push,
            questions,
            parked: Arc::new(Parked::new(parked::PATIENCE)),
            closing,
        }))
    }

    /// The engine behind it.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Seals and opens what clients hand back to us.
    pub(crate) fn ring(&self) -> Arc<KeyRing> {
        self.keys.ring(&self.engine.snapshot().config)
    }

    /// What the client of a session says without asking.
    pub(crate) fn notified(&self, session: SessionId, notification: &Notification<'_>) {
        match notification.method.as_ref() {
            methods::CANCELLED => {
                if let Ok(params) = Params::parse(notification.params)
                    && let Some(id) = params.object.get("requestId")
                {
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

    /// Ends all streams, so that connections can drain. Requests in flight go on.
    pub fn close(&self) {
        self.closing.cancel();
    }
}
