//! Puts a question to the client while its request is under way.

use serde_json::value::RawValue;
use thiserror::Error;
use tokio::sync::oneshot;
use vmcp_backend::{Event, Question, RpcOutcome};
use vmcp_wire::handshake::client_capabilities::AnswerableQuestions;

use crate::caller::Caller;
use vmcp_engine::telemetry::traces::{self, TraceSpan};

/// The reason why a client cannot be asked: the end of a sentence that begins with "the client".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum NotAskable {
    #[error("did not declare that it answers that")]
    Undeclared,
    #[error("takes no stream of events")]
    NoEvents,
    #[error("is gone")]
    Gone,
}

/// True if the client has declared to answer `method`.
pub(crate) fn has_declared(caller: &Caller, method: &str) -> bool {
    AnswerableQuestions::read(caller.client.capabilities.as_deref()).allow(method, None)
}

/// True if the client has declared to answer `method`, and can be sent questions.
pub(crate) fn can_ask(caller: &Caller, method: &str) -> bool {
    caller.events.is_some() && has_declared(caller, method)
}

/// Puts one question to the client; returns the receiver of its answer, which fails if the client cannot be
/// asked after all.
pub(crate) async fn ask(
    caller: &Caller,
    method: &str,
    params: Option<Box<RawValue>>,
) -> Result<oneshot::Receiver<RpcOutcome>, NotAskable> {
    let answerable = AnswerableQuestions::read(caller.client.capabilities.as_deref());
    if !answerable.allow(method, params.as_deref()) {
        return Err(NotAskable::Undeclared);
    }
    let events = caller.events.as_ref().ok_or(NotAskable::NoEvents)?;
    let (answer, answered) = oneshot::channel();
    // A client with a session gets the trace of this call with the question.
    let traced = traces::params_in_trace(params.as_deref(), &TraceSpan::current());
    let question = Question { id: None, method: method.into(), params: traced.or(params), answer };
    events.send(Event::Question(question)).await.map_err(|_| NotAskable::Gone)?;
    Ok(answered)
}
