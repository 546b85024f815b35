//! Mark of a call that a backend may be executing: a call that is cut off cannot ask its layers any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::connection::Connection;
use crate::transport::Link;

use crate::request::Transmission;

/// Set while the backend may be executing the call.
#[derive(Debug, Default)]
pub(super) struct InDoubt {
    is_set: AtomicBool,
    /// The connection of the last attempt.
    connection: Mutex<Option<Arc<Connection>>>,
}

impl InDoubt {
    pub(super) fn set(&self, in_doubt: bool) {
        self.is_set.store(in_doubt, Ordering::Relaxed);
    }

    /// Marks the beginning of an attempt on this connection.
    pub(super) fn begin(&self, connection: &Arc<Connection>) {
        self.set(true);
        if matches!(connection.channel.link, Link::Duplex(_)) {
            *self.connection.lock() = Some(Arc::clone(connection));
        }
    }

    /// Returns what the backend has sent since then that is not a message, behind a separator. Only two-way
    /// streams have it: over HTTP such an answer ends its call.
    pub(super) fn stray_since(&self, since: Instant) -> String {
        let connection = self.connection.lock();
        let Some(Link::Duplex(duplex)) = connection.as_ref().map(|connection| &connection.channel.link)
        else {
            return String::new();
        };
        let stray = duplex.mux.stray_since(since);
        stray.map(|words| format!("; meanwhile it sent{words}")).unwrap_or_default()
    }

    /// The transmission of a call that is cut off now.
    pub(super) fn transmission(&self) -> Transmission {
        if self.is_set.load(Ordering::Relaxed) { Transmission::Unknown } else { Transmission::NotSent }
    }
}
