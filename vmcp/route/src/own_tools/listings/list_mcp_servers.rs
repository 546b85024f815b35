//! The handler of list_mcp_servers: the servers of the caller's view, and how they are doing.

use std::time::SystemTime;

use serde::Serialize;
use serde_json::value::RawValue;
use vmcp_backend::BackendState;
use vmcp_config::{Backend, OptimTool};
use vmcp_search::first_sentence;

use super::profile_view::under_profile;
use crate::answer::Answer;
use crate::caller::CallContext;
use crate::own_tools::own_answer;
use crate::own_tools::unavailable;
use vmcp_engine::engine::View;
use vmcp_engine::telemetry::calls::Origin;

/// Most characters of a server's description.
const MAX_DESCRIPTION_CHARS: usize = 200;

/// Answers with the servers, or only those of the profile that `project_id` names.
pub(in crate::own_tools) fn run(context: CallContext<'_>, arguments: &RawValue) -> Answer {
    own_answer::answer(context, Origin::Own(OptimTool::ListMcpServers), arguments, |arguments| {
        let snapshot = context.snapshot;
        let limit = snapshot.config.optimizer.limits.tool_name_chars;
        let project = arguments.text(&["project_id"], limit)?;
        let of_project = project.as_ref().map(|project| under_profile(context, project));
        let view = match &of_project {
            Some(Some(view)) => view,
            Some(None) => return Ok(Servers { success: true, servers: Vec::new() }),
            None => context.view,
        };
        Ok(Servers { success: true, servers: servers(context, view, None) })
    })
}

/// Returns the servers of the caller's view, as list_mcp_servers shows them.
pub fn listed_servers(context: CallContext<'_>) -> impl Serialize + use<> {
    servers(context, context.view, None)
}

/// Returns the servers of a view: servers in use, then servers whose configuration lacks a value, then
/// servers that are switched off. With `only`, the server of that name alone.
pub(crate) fn servers(context: CallContext<'_>, view: &View, only: Option<&str>) -> Vec<ListedServer> {
    let snapshot = context.snapshot;
    let is_wanted = |name: &str| only.is_none_or(|only| only == name);
    let mut changes = context.engine.changes();
    // The counts of changes are those of all tools of a server.
    changes.retain(|name, _| is_wanted(name) && sees_all_tools(context, view, name));
    let visible = snapshot.backends.iter().filter(|(name, _)| is_wanted(name) && view.has_backend(name));
    let servers = visible.map(|(name, backend)| {
        let status = backend.status();
        let description = snapshot.instructions_of(name).map(first_sentence).unwrap_or_default();
        ListedServer {
            name: name.to_string(),
            enabled: None,
            description: description.chars().take(MAX_DESCRIPTION_CHARS).collect(),
            connected: status.state == BackendState::Connected,
            state: status.state.as_str(),
            connected_at: status
                .connected_at
                .filter(|_| status.state == BackendState::Connected)
                .map(rfc3339),
            last_error: unavailable::cause_of(context, &status),
            transport: status.transport,
            tool_count: view.tools().filter(|tool| tool.backend == *name).count(),
            changes: changes.remove(&**name).filter(vmcp_config::status::DefinitionChanges::any).map(
                |changes| ListedChanges {
                    added: changes.added,
                    updated: changes.updated,
                    removed: changes.removed,
                    at: changes.at.map(rfc3339),
                },
            ),
        }
    });
    let idle = snapshot.config.backends.iter().filter(|backend| !backend.enabled && is_wanted(&backend.name));
    let idle = idle.filter(|backend| view.has_backend(&backend.name));
    let (failed, switched_off): (Vec<_>, Vec<_>) =
        idle.partition(|backend| snapshot.config.unavailable.contains_key(&backend.name));
    let failed = failed.into_iter().map(|backend| ListedServer {
        last_error: unavailable::absent_value_of(context, &backend.name),
        ..ListedServer::unconnected(backend, BackendState::Failed.as_str())
    });
    let switched_off = switched_off.into_iter().map(|backend| ListedServer {
        enabled: Some(false),
        ..ListedServer::unconnected(backend, "disabled")
    });
    servers.chain(failed).chain(switched_off).collect()
}

fn rfc3339(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at).to_string()
}

/// True if a view hides no tool of a server.
fn sees_all_tools(context: CallContext<'_>, view: &View, server: &str) -> bool {
    let listed = context.snapshot.unfiltered().tools_of(server).filter(|tool| tool.listed).count();
    view.tools().filter(|tool| *tool.backend == *server).count() == listed
}

#[derive(Serialize)]
struct Servers {
    success: bool,
    servers: Vec<ListedServer>,
}

/// A server as list_mcp_servers shows it.
#[derive(Serialize)]
pub(crate) struct ListedServer {
    pub(crate) name: String,
    /// `false` for a server that is switched off; absent for all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    pub(crate) connected: bool,
    state: &'static str,
    /// Beginning of the present connection, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    connected_at: Option<String>,
    /// Cause for which the server does not answer, where the client may read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    pub(crate) transport: String,
    tool_count: usize,
    /// Difference between the last changed listing and the one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<ListedChanges>,
}

impl ListedServer {
    /// Returns the entry of a configured server that vmcp does not use.
    fn unconnected(backend: &Backend, state: &'static str) -> ListedServer {
        ListedServer {
            name: backend.name.to_string(),
            enabled: None,
            description: String::new(),
            connected: false,
            state,
            connected_at: None,
            last_error: None,
            transport: backend.kind().to_owned(),
            tool_count: 0,
            changes: None,
        }
    }
}

#[derive(Serialize)]
struct ListedChanges {
    added: usize,
    updated: usize,
    removed: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
}
