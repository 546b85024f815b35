//! Servers that are configured and do not answer, for answers to a model: a tool of theirs is not missing,
//! its server is down.

use serde::Serialize;
use vmcp_backend::BackendState;
use vmcp_config::status::BackendStatus;

use crate::call::cause;
use vmcp_engine::engine::{Snapshot, View};

/// Most servers in one answer.
const MAX_SERVERS: usize = 20;

/// A server that does not answer.
#[derive(Debug, Clone, Serialize)]
pub(super) struct UnavailableServer {
    pub(super) server: String,
    /// Cause, where the client is on this machine: it may name hosts and quote what a program printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
}

impl UnavailableServer {
    /// Returns the sentence for a model that asked for one of its tools.
    pub(super) fn sentence(&self) -> String {
        let reason = self.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("the server {} is not available{reason}", self.server)
    }
}

/// Returns the servers of this view that do not answer, at most [`MAX_SERVERS`].
pub(super) fn servers(snapshot: &Snapshot, view: &View) -> Vec<UnavailableServer> {
    let shown = cause::may_be_shown(snapshot);
    let running = snapshot.backends.values().map(vmcp_backend::Backend::status).filter(is_down);
    let running = running.map(|status| (status.name, status.last_error));
    let without_values = snapshot.config.unavailable.iter();
    let without_values = without_values.map(|(name, reason)| (name.to_string(), Some(reason.clone())));
    let known = running.chain(without_values).filter(|(name, _)| view.has_backend(name)).take(MAX_SERVERS);
    known
        .map(|(server, error)| UnavailableServer {
            server,
            reason: error.filter(|_| shown).map(|error| cause::shortened(&error)),
        })
        .collect()
}

/// Returns true for a server that failed, or whose tools cannot be listed.
fn is_down(status: &BackendStatus) -> bool {
    match status.state {
        BackendState::Failed => true,
        BackendState::Connected | BackendState::Connecting => {
            status.last_error.is_some() && status.tools.is_none_or(|tools| tools == 0)
        }
        BackendState::Configured => false,
    }
}

/// Returns the server among those down that a tool's name belongs to, by its beginning.
pub(super) fn owner<'a>(down: &'a [UnavailableServer], tool: &str) -> Option<&'a UnavailableServer> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '.', '/', ':'], "_");
    let tool = plain(tool);
    let begins = |server: &&UnavailableServer| {
        let name = plain(&server.server);
        tool.strip_prefix(&name).is_some_and(|rest| rest.starts_with('_'))
            || tool.contains(&format!("__{name}_"))
    };
    down.iter().filter(begins).max_by_key(|server| server.server.len())
}
