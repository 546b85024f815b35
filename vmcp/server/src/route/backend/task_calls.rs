//! Calls of tools that become tasks.

use std::sync::Arc;

use vmcp_backend::{CallError, Outcome, Response};
use vmcp_wire::era::Era;
use vmcp_wire::handshake::client_capabilities::ClientExtensions;
use vmcp_wire::handshake::server_capabilities::ServerCapabilities;
use vmcp_wire::lists::tasks;
use vmcp_wire::translate::{ResultType, payload_type};

use crate::engine::Snapshot;
use crate::route::caller::Caller;

/// Whether a modern client takes a task instead of a result.
pub(crate) fn takes_tasks(caller: &Caller) -> bool {
    ClientExtensions::read(caller.client.capabilities.as_deref()).has_tasks()
}

/// Whether a call of a tool of `backend` may ask for a task by the rules of 2025-11-25.
pub(super) fn may_ask(snapshot: &Snapshot, caller: &Caller, backend: &str) -> bool {
    caller.era == Era::Legacy
        && snapshot.capabilities_of(backend).is_some_and(ServerCapabilities::takes_task_calls)
}

/// Learns of the task that a call of a tool has become, if it has; `asked` is whether it was asked to by the rules of
/// 2025-11-25. An error when the client cannot be given one.
pub(super) fn learn(
    snapshot: &Snapshot,
    caller: &Caller,
    backend: &Arc<str>,
    asked: bool,
    response: &Response,
) -> Result<(), CallError> {
    let Outcome::Result(result) = &response.outcome else { return Ok(()) };
    match response.era {
        Era::Legacy if !asked => return Ok(()),
        Era::Legacy => {}
        Era::Modern => {
            if payload_type(result) != ResultType::Task {
                return Ok(());
            }
            if !takes_tasks(caller) {
                let reason = "it answered with a task, which the client does not take".to_owned();
                return Err(CallError::Protocol { reason });
            }
        }
    }
    if let Some(task) = tasks::created(result, response.era) {
        snapshot.tasks.learn(caller.identity, &task, backend);
    }
    Ok(())
}
