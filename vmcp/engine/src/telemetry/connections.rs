//! [`ObservedConnections`]: counts connections to backends, and tells watchers of their states.

use std::sync::Arc;

use vmcp_backend::{BackendState, ConnectionObserver, EndedSession};

use super::server_events::ServerEvents;
use crate::metrics::Metrics;

/// Metrics and watchers of the connections to all backends.
#[derive(Debug, Default)]
pub(crate) struct ObservedConnections {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) events: Arc<ServerEvents>,
}

impl ConnectionObserver for ObservedConnections {
    fn connect_failed(&self, backend: &str, reason: &'static str) {
        self.metrics.connect_failed(backend, reason);
    }

    fn session_ended(&self, session: &EndedSession<'_>) {
        self.metrics.session_ended(session);
    }

    fn state_changed(&self, backend: &str, state: BackendState) {
        self.events.state(backend, state);
    }
}
