//! [`ConnectionObserver`]: receiver of facts about connections, for metrics.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use vmcp_config::status::BackendState;

use crate::request::server_network::ServerNetwork;

/// An upstream session that has ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedSession<'a> {
    /// The backend's configured name.
    pub backend: &'a str,
    /// The way to the backend.
    pub network: &'a Arc<ServerNetwork>,
    /// Revision of the protocol.
    pub revision: &'static str,
    /// Time from the handshake to the end.
    pub lived: Duration,
}

/// Receiver of facts about connections. Its methods must not block.
pub trait ConnectionObserver: fmt::Debug + Send + Sync {
    /// An attempt to connect to `backend` failed. `reason` is one of a fixed set: `connect`, `timeout`,
    /// `closed`, `credentials`, `refused`, `status`, `protocol`, `stopped` or `other`.
    fn connect_failed(&self, backend: &str, reason: &'static str);

    /// A session, which began with `initialize`, has ended.
    fn session_ended(&self, session: &EndedSession<'_>);

    /// `backend` has another state than before.
    fn state_changed(&self, backend: &str, state: BackendState);
}

/// Forgets everything: the default [`ConnectionObserver`].
#[derive(Debug)]
pub(crate) struct NoConnectionObserver;

impl ConnectionObserver for NoConnectionObserver {
    fn connect_failed(&self, _: &str, _: &'static str) {}
    fn session_ended(&self, _: &EndedSession<'_>) {}
    fn state_changed(&self, _: &str, _: BackendState) {}
}
