//! Calls of tools that become tasks: who may ask for one, and which backend owns it.

use std::sync::Arc;

use vmcp_backend::{CallError, Response, RpcOutcome};
use vmcp_wire::era::Era;
use vmcp_wire::handshake::client_capabilities::ClientExtensions;
use vmcp_wire::handshake::server_capabilities::ServerCapabilities;
use vmcp_wire::lists::tasks;
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

/// Records the owner of the task that a tool call has become, if it has. `asked`: the call asked for a task
/// by the rules of 2025-11-25. Returns an error if the client does not take tasks.
pub(super) fn learn(
    context: CallContext<'_>,
    backend: &Arc<str>,
    asked: bool,
    response: &Response,
) -> Result<(), CallError> {
    let RpcOutcome::Result(result) = &response.outcome else { return Ok(()) };
    match response.era {
        Era::Legacy if !asked => return Ok(()),
        Era::Legacy => {}
        Era::Modern => {
            if payload_type(result) != ResultType::Task {
                return Ok(());
            }
            if !takes_tasks(context.caller) {
                return Err(CallError::protocol("it answered with a task, which the client does not take"));
            }
        }
    }
    if let Some(task) = tasks::created(result, response.era) {
        context.snapshot.tasks.learn(&context.caller.principal.identity, &task, backend);
    }
    Ok(())
}
