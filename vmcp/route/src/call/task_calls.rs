//! Calls of tools that become tasks: the clients that may ask for one, and the id that a client gets.

pub mod task_names;

use vmcp_backend::{CallError, Response, RpcOutcome};
use vmcp_model::catalog::CatalogTool;
use vmcp_wire::era::Era;
use vmcp_wire::handshake::client_capabilities::ClientExtensions;
use vmcp_wire::handshake::server_capabilities::ServerCapabilities;
use vmcp_wire::lists::tasks;
use vmcp_wire::payload::Payload;
use vmcp_wire::translate::{ResultType, payload_type};

use crate::caller::{CallContext, Caller};

/// True if a modern client declared that it takes a task instead of a result.
pub fn takes_tasks(caller: &Caller) -> bool {
    ClientExtensions::read(caller.client.capabilities.as_deref()).has_tasks()
}

/// True if a call of a tool of `backend` may ask for a task by the rules of 2025-11-25.
pub(super) fn may_ask(context: CallContext<'_>, backend: &str) -> bool {
    context.caller.era == Era::Legacy
        && context.snapshot.capabilities_of(backend).is_some_and(ServerCapabilities::takes_task_calls)
}

/// Gives the task that a tool call has become, if it has, an id of the caller's own. `asked`: the call asked
/// for a task by the rules of 2025-11-25. Returns an error if the client does not take tasks.
pub(super) fn issue(
    context: CallContext<'_>,
    tool: &CatalogTool,
    asked: bool,
    mut response: Response,
) -> Result<Response, CallError> {
    let RpcOutcome::Result(result) = &response.outcome else { return Ok(response) };
    match response.era {
        Era::Legacy if !asked => return Ok(response),
        Era::Legacy => {}
        Era::Modern => {
            if payload_type(result) != ResultType::Task {
                return Ok(response);
            }
            if !takes_tasks(context.caller) {
                return Err(CallError::protocol("it answered with a task, which the client does not take"));
            }
        }
    }
    if let Some(id) = tasks::created(result, response.era) {
        let shown = task_names::issue(context, tool, &id)?;
        let renamed = tasks::renamed(result, |own| (own == id).then(|| shown.to_string()));
        if let Some(renamed) = renamed {
            response.outcome = RpcOutcome::Result(Payload::from(renamed));
        }
    }
    Ok(response)
}
