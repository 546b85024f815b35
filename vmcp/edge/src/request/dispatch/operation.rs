//! Begins the [`Operation`] of a message, with its facts and those of its sender.

use std::net::IpAddr;

use futures::StreamExt as _;
use futures::stream::Stream;
use serde_json::value::RawValue;
use vmcp_backend::SessionId;
use vmcp_engine::engine::Snapshot;
use vmcp_engine::optim::names::{OwnName, own_name};
use vmcp_engine::telemetry::operations::{Operation, OperationFailure, OperationStart, OperationTarget};
use vmcp_engine::telemetry::traces::IncomingTrace;
use vmcp_wire::era::Revision;
use vmcp_wire::methods;
use vmcp_wire::owned::OwnedRequest;
use vmcp_wire::rpc::RpcError;

use super::Dispatch;
use crate::request::edge::Edge;
use crate::session::peer::Peer;

/// Begins the operation of a request that has a peer. `subject` is that of the request.
pub(super) fn begin(dispatch: Dispatch<'_>, subject: Option<&str>, trace: &IncomingTrace) -> Operation {
    let Dispatch { edge, snapshot, peer, request } = dispatch;
    let start = OperationStart {
        target: target(snapshot, request, subject),
        id: Some(request.id().get()),
        ..of_sender(&Sender::from(peer), request.method(), trace)
    };
    Operation::begin(edge.engine.metrics(), &start)
}

/// The sender of a message, as telemetry names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender {
    /// The revision that the message is of.
    pub(crate) revision: Revision,
    /// `tcp` or `pipe`.
    pub(crate) transport: &'static str,
    /// Version of HTTP.
    pub(crate) http_version: Option<&'static str>,
    /// The session, if it has begun.
    pub(crate) session: Option<SessionId>,
    /// The client's address.
    pub(crate) address: Option<IpAddr>,
    /// The client's port, where the address is that of the connection.
    pub(crate) port: Option<u16>,
}

impl From<&Peer> for Sender {
    fn from(peer: &Peer) -> Self {
        Self {
            revision: peer.revision,
            transport: peer.transport,
            http_version: peer.http_version,
            session: peer.session,
            address: peer.principal.address,
            port: peer.port,
        }
    }
}

/// Begins the operation of a message without a handler: `initialize`, `subscriptions/listen`,
/// or a notification, which has no id.
pub(crate) fn begin_message(
    edge: &Edge,
    sender: &Sender,
    method: &str,
    id: Option<&RawValue>,
    trace: &IncomingTrace,
) -> Operation {
    let start = OperationStart { id: id.map(RawValue::get), ..of_sender(sender, method, trace) };
    Operation::begin(edge.engine.metrics(), &start)
}

/// Ends the operation of a message that has no handler.
pub(crate) fn settle(operation: &mut Operation, result: Result<(), &RpcError>) {
    operation.settle(
        result.err().map(|error| {
            Box::new(OperationFailure::Rpc { code: error.code, message: error.message.clone() })
        }),
    );
}

/// Ends an operation with the first message of the stream that answers it: a stream may stay open for days.
/// Dropped before, the stream counts as cancelled.
pub(crate) fn until_first_message<S: Stream>(
    stream: S,
    operation: Operation,
) -> impl Stream<Item = S::Item> + use<S> {
    let mut operation = Some(operation);
    stream.inspect(move |_| {
        if let Some(mut operation) = operation.take() {
            operation.settle(None);
        }
    })
}

/// Returns the facts of a message without an id and a target.
fn of_sender<'a>(sender: &Sender, method: &'a str, trace: &'a IncomingTrace) -> OperationStart<'a> {
    OperationStart {
        method,
        target: OperationTarget::None,
        id: None,
        revision: sender.revision.as_str(),
        transport: sender.transport,
        http_version: sender.http_version,
        session: sender.session,
        address: sender.address,
        port: sender.port,
        trace,
    }
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
        // The URI template of a resource is the other thing that a completion may be about.
        methods::PROMPTS_GET | methods::COMPLETE if snapshot.unfiltered().prompt(subject).is_some() => {
            OperationTarget::Prompt(subject)
        }
        methods::PROMPTS_GET => OperationTarget::UnknownPrompt(subject),
        methods::RESOURCES_READ | methods::SUBSCRIBE | methods::UNSUBSCRIBE => {
            OperationTarget::Resource(subject)
        }
        _ => OperationTarget::None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::{FutureExt as _, stream};
    use vmcp_engine::telemetry::TCP;
    use vmcp_engine::telemetry::metrics::Metrics;

    use super::*;

    fn listening(metrics: &Arc<Metrics>) -> Operation {
        let (revision, transport) = (Revision::MODERN, TCP);
        let sender =
            Sender { revision, transport, http_version: None, session: None, address: None, port: None };
        Operation::begin(metrics, &of_sender(&sender, methods::LISTEN, &IncomingTrace::default()))
    }

    #[test]
    fn a_stream_is_an_operation_until_its_first_message() {
        let metrics = Arc::<Metrics>::default();
        let is_counted = |error: &str| {
            let (begin, label) =
                ("mcp_server_operation_duration_seconds_count", format!("error_type=\"{error}\""));
            metrics.encode().lines().any(|line| line.starts_with(begin) && line.contains(&label))
        };
        let messages = stream::iter([1, 2]).chain(stream::pending());
        let mut messages = until_first_message(messages, listening(&metrics));
        assert!(!is_counted(""), "the acknowledgment is not there yet");
        assert_eq!(messages.next().now_or_never(), Some(Some(1)));
        assert!(is_counted(""), "the stream goes on");
        drop(until_first_message(stream::pending::<()>(), listening(&metrics)));
        assert!(is_counted("cancelled"));
    }
}
