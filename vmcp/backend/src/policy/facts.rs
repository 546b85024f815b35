//! Facts about one backend that every part of its connection needs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use vmcp_config::Transport;

use crate::policy::settings::BackendSettings;

/// Configuration of a backend and its signals. The lower rooms take these instead of the whole
/// [`BackendCore`](crate::sharing::core::BackendCore), so that no room knows the ones above it.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The backend's configuration.
    pub(crate) spec: vmcp_config::Backend,
    /// Limits and intervals; a `connection_timeout` in `spec` has replaced the common one.
    pub(crate) settings: BackendSettings,
    /// Wakes the refresher: the definitions may have changed.
    pub(crate) changed: Arc<Notify>,
    /// Cancelled when the backend is stopped.
    pub(crate) stop: CancellationToken,
}

impl Facts {
    pub(crate) fn new(spec: vmcp_config::Backend, mut settings: BackendSettings) -> Self {
        settings.connection_timeout = spec.connection_timeout.unwrap_or(settings.connection_timeout);
        Self { spec, settings, changed: Arc::default(), stop: CancellationToken::new() }
    }

    /// Returns the time without a call after which the program is stopped; `None` for a remote server and
    /// for a program that is never stopped.
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        let Transport::Stdio { idle_timeout, .. } = &self.spec.transport else { return None };
        Some(idle_timeout.unwrap_or(self.settings.idle_timeout)).filter(|timeout| !timeout.is_zero())
    }
}
