//! Servers that are configured and do not answer, for answers to a model: a tool of theirs is not missing,
//! its server is down.

use serde::Serialize;
use vmcp_backend::BackendState;
use vmcp_config::status::BackendStatus;
use vmcp_config::{Backend, Config};

use crate::call::cause;
use crate::caller::CallContext;
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

/// Returns the servers of the caller's view that do not answer, at most [`MAX_SERVERS`].
pub(super) fn servers(context: CallContext<'_>) -> Vec<UnavailableServer> {
    let CallContext { snapshot, view, .. } = context;
    let running = snapshot.backends.values().map(vmcp_backend::Backend::status).filter(is_down);
    let running = running.map(|status| (status.name, status.last_error));
    let without_values = snapshot.config.unavailable.iter();
    let without_values = without_values.map(|(name, reason)| (name.to_string(), Some(reason.clone())));
    let known = running.chain(without_values).filter(|(name, _)| view.has_backend(name)).take(MAX_SERVERS);
    known
        .map(|(server, error)| UnavailableServer { server, reason: shown(context, error.as_deref()) })
        .collect()
}

/// Returns the cause for which a server does not answer; `None` if it answers, or causes stay with operators.
pub(super) fn cause_of(context: CallContext<'_>, status: &BackendStatus) -> Option<String> {
    shown(context, status.last_error.as_deref().filter(|_| is_down(status)))
}

/// Returns the words about the value that the configuration of a server lacks, where they may be shown.
pub(super) fn absent_value_of(context: CallContext<'_>, server: &str) -> Option<String> {
    shown(context, context.snapshot.config.unavailable.get(server).map(String::as_str))
}

/// Returns the beginning of a cause, where the caller may read causes.
fn shown(context: CallContext<'_>, cause: Option<&str>) -> Option<String> {
    let may_be_shown = cause::may_be_shown(context.snapshot, &context.caller.principal);
    cause.filter(|_| may_be_shown).map(cause::shortened)
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

/// Returns the switched-off server of this view that a call names: by itself, or by the beginning of the
/// tool's name, unless that fits a server in use better.
pub(super) fn switched_off<'a>(
    snapshot: &'a Snapshot,
    view: &View,
    server: Option<&str>,
    tool: &str,
) -> Option<&'a str> {
    let Config { backends, unavailable, .. } = &*snapshot.config;
    let is_off = |backend: &&Backend| !backend.enabled && !unavailable.contains_key(&backend.name);
    let off = backends.iter().filter(is_off).map(|backend| &*backend.name);
    let off: Vec<&str> = off.filter(|name| view.has_backend(name)).collect();
    if let Some(server) = server {
        return off.into_iter().find(|name| name.eq_ignore_ascii_case(server));
    }
    let in_use = snapshot.backends.keys().map(|name| &**name).filter(|name| view.has_backend(name));
    let meant = owner(off.iter().copied().chain(in_use), |name| name, tool)?;
    off.contains(&meant).then_some(meant)
}

/// Returns the server among these that a tool's name belongs to, by its beginning.
pub(super) fn owner<T>(
    servers: impl IntoIterator<Item = T>,
    name_of: impl Fn(&T) -> &str,
    tool: &str,
) -> Option<T> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '.', '/', ':'], "_");
    let tool = plain(tool);
    let begins = |server: &T| {
        let name = plain(name_of(server));
        tool.strip_prefix(&name).is_some_and(|rest| rest.starts_with('_'))
            || tool.contains(&format!("__{name}_"))
    };
    servers.into_iter().filter(begins).max_by_key(|server| name_of(server).len())
}
