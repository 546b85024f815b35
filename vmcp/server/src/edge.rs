//! The MCP edge: clients of both eras, over HTTP at one URL and over stdio; and the admin port.
//!
//! ```text
//! http ─┐                                       ┌─ handshake   initialize, server/discover, ping
//!       ├─ peer ─ conversation ─ dispatch ──────┼─ lists       pages of the snapshot's view
//! stdio ┘ (who asks)   │                        └─ route       tools, resources, prompts, completions
//!       │              ├─ questions   what legacy clients were asked
//!       │              └─ parked      calls of modern clients that wait for input
//!       └─ streams     list_changed for whoever listens
//! ```
//!
//! A transport turns bytes into a message and a [`peer::Peer`]; everything behind `dispatch` is the same for all of them.

pub mod admin;
mod connections;
mod conversation;
mod dispatch;
mod guard;
mod handshake;
mod http;
mod in_flight;
mod kept;
mod keys;
mod listeners;
mod lists;
mod logging;
mod mailbox;
mod parked;
mod peer;
mod questions;
mod random;
pub mod serve;
mod sessions;
mod socket;
pub mod stdio;
mod streams;
mod subscriptions;
mod topics;

use std::borrow::Cow;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use vmcp_backend::SessionId;
use vmcp_wire::envelope::Notification;
use vmcp_wire::meta::{Meta, Trace};
use vmcp_wire::methods;
use vmcp_wire::params::Params;
use vmcp_wire::sealed::{KeyError, KeyRing};

use crate::engine::Engine;
use crate::route::TraceContext;
use in_flight::InFlight;
use keys::Keys;
pub use listeners::Listeners;
use parked::Parked;
use questions::Questions;
use sessions::Sessions;

/// The trace that a message carries in its `_meta`.
fn carried_trace(meta: &Meta<'_>) -> TraceContext {
    let Trace { traceparent, tracestate, baggage } = meta.trace();
    let owned = |text: Option<Cow<'_, str>>| text.map(|text| Cow::Owned(text.into_owned()));
    TraceContext { traceparent: owned(traceparent), tracestate: owned(tracestate), baggage: owned(baggage) }
}

/// How often sessions that have expired are looked for.
const SWEEP: Duration = Duration::from_mins(1);

/// What all connections share.
pub struct Edge {
    engine: Engine,
    keys: Keys,
    sessions: Sessions,
    in_flight: Arc<InFlight>,
    listeners: Arc<Listeners>,
    questions: Arc<Questions>,
    parked: Arc<Parked>,
    closing: CancellationToken,
}

impl Edge {
    /// An edge in front of `engine`, whose backends deliver to `listeners`. Needs a tokio runtime.
    pub fn new(engine: Engine, listeners: Arc<Listeners>) -> Result<Arc<Edge>, KeyError> {
        let edge = Arc::new(Edge {
            keys: Keys::new(&engine.snapshot().config)?,
            engine,
            sessions: Sessions::default(),
            in_flight: Arc::default(),
            questions: Arc::clone(&listeners.questions),
            listeners,
            parked: Arc::new(Parked::new(parked::PATIENCE)),
            closing: CancellationToken::new(),
        });
        tokio::spawn(attend(Arc::downgrade(&edge)));
        Ok(edge)
    }

    /// The engine behind it.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Seals and opens what clients hand back to us.
    fn ring(&self) -> Arc<KeyRing> {
        self.keys.ring(&self.engine.snapshot().config)
    }

    /// What the client of a session says without asking.
    fn notified(&self, session: SessionId, notification: &Notification<'_>) {
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

    /// Frees everything that belongs to a session that has ended.
    fn end_session(&self, session: SessionId) {
        self.listeners.end(session);
        for backend in self.engine.snapshot().backends.values() {
            backend.end_session(session);
        }
    }

    /// Ends all streams, so that connections can drain. Requests in flight go on.
    pub fn close(&self) {
        self.closing.cancel();
    }
}

/// Follows the configuration and the clock, for as long as there is an edge.
async fn attend(edge: Weak<Edge>) {
    let Some(mut configurations) = edge.upgrade().map(|edge| edge.engine.configurations()) else { return };
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        let reconfigured = tokio::select! {
            _ = sweep.tick() => false,
            changed = configurations.changed() => match changed {
                Ok(()) => true,
                Err(_) => return,
            },
        };
        let Some(edge) = edge.upgrade() else { return };
        if reconfigured {
            subscriptions::renew(&edge).await;
        }
        for expired in edge.listeners.sessions.expired(random::now()) {
            edge.end_session(expired);
        }
    }
}
