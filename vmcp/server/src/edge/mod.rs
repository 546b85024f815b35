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
mod keys;
mod lists;
mod parked;
mod peer;
mod questions;
mod random;
pub mod serve;
mod sessions;
mod socket;
pub mod stdio;
mod streams;

use std::borrow::Cow;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use vmcp_wire::meta::{Meta, Trace};
use vmcp_wire::sealed::{KeyError, KeyRing};

use crate::engine::Engine;
use crate::route::TraceContext;
use in_flight::InFlight;
use keys::Keys;
use parked::Parked;
use questions::Questions;
use sessions::Sessions;

/// The trace that a message carries in its `_meta`.
fn carried_trace(meta: &Meta<'_>) -> TraceContext {
    let Trace { traceparent, tracestate, baggage } = meta.trace();
    let owned = |text: Option<Cow<'_, str>>| text.map(|text| Cow::Owned(text.into_owned()));
    TraceContext { traceparent: owned(traceparent), tracestate: owned(tracestate), baggage: owned(baggage) }
}

/// What all connections share.
pub struct Edge {
    engine: Engine,
    keys: Keys,
    sessions: Sessions,
    in_flight: Arc<InFlight>,
    questions: Arc<Questions>,
    parked: Arc<Parked>,
    closing: CancellationToken,
}

impl Edge {
    /// An edge in front of `engine`.
    pub fn new(engine: Engine) -> Result<Arc<Edge>, KeyError> {
        Ok(Arc::new(Edge {
            keys: Keys::new(&engine.snapshot().config)?,
            engine,
            sessions: Sessions::default(),
            in_flight: Arc::default(),
            questions: Arc::new(Questions::new()),
            parked: Arc::new(Parked::new(parked::PATIENCE)),
            closing: CancellationToken::new(),
        }))
    }

    /// The engine behind it.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Seals and opens what clients hand back to us.
    fn ring(&self) -> Arc<KeyRing> {
        self.keys.ring(&self.engine.snapshot().config)
    }

    /// Ends all streams, so that connections can drain. Requests in flight go on.
    pub fn close(&self) {
        self.closing.cancel();
    }
}
