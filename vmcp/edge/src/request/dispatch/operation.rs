//! Begins the [`Operation`] of a request, with the facts of its message and its sender.

use vmcp_engine::engine::Snapshot;
use vmcp_engine::optim::names::{OwnName, own_name};
use vmcp_engine::telemetry::operations::{Operation, OperationStart, OperationTarget};
use vmcp_engine::telemetry::traces::IncomingTrace;
use vmcp_wire::methods;
use vmcp_wire::owned::OwnedRequest;

use super::Dispatch;

/// Begins the operation of a request that has a peer. `subject` is that of the request.
pub(super) fn begin(dispatch: Dispatch<'_>, subject: Option<&str>, trace: &IncomingTrace) -> Operation {
    let Dispatch { edge, snapshot, peer, request } = dispatch;
    let start = OperationStart {
        method: request.method(),
        target: target(snapshot, request, subject),
        id: request.id().get(),
        revision: peer.revision.as_str(),
        transport: peer.transport,
        session: peer.session,
        address: peer.principal.address,
        trace,
    };
    Operation::begin(edge.engine.metrics(), &start)
}

/// Returns the target of a request, by the kind of its method.
fn target<'a>(
    snapshot: &'a Snapshot,
    request: &OwnedRequest,
    subject: Option<&'a str>,
) -> OperationTarget<'a> {
    let Some(subject) = subject else { return OperationTarget::None };
    match request.method() {
        methods::TOOLS_CALL => match snapshot.unfiltered().tool(subject) {
            Some(tool) => OperationTarget::Tool(&tool.name),
            None => match own_name(subject) {
                Some(OwnName::Reserved(tool) | OwnName::Bare(tool)) => OperationTarget::Tool(tool.dotted()),
                Some(OwnName::Unknown) | None => OperationTarget::UnknownTool(subject),
            },
        },
        methods::PROMPTS_GET if snapshot.unfiltered().prompt(subject).is_some() => {
            OperationTarget::Prompt(subject)
        }
        methods::PROMPTS_GET => OperationTarget::UnknownPrompt(subject),
        methods::RESOURCES_READ | methods::SUBSCRIBE | methods::UNSUBSCRIBE => {
            OperationTarget::Resource(subject)
        }
        _ => OperationTarget::None,
    }
}
