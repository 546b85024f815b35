//! Spans of the questions that a backend asks. The server begins that exchange, so the roles of the
//! conventions swap: vmcp, the client of the backend, has a span of kind SERVER; its own message to the
//! client that answers has one of kind CLIENT below.
//!
//! Source: open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md (status Development).

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::oneshot;
use vmcp_backend::{Backend, Event, EventMap, Question, RpcOutcome, ServerNetwork};
use vmcp_json::object::Object;
use vmcp_json::text;
use vmcp_wire::era::{Era, Revision};

use super::exchange_span;
use vmcp_engine::telemetry::metrics::method_label;
use vmcp_engine::telemetry::operations::{OperationFailure, shortened};
use vmcp_engine::telemetry::traces::{self, IncomingTrace, OpenSpan, TraceContext, TraceSpan};

/// The backend that asks.
#[derive(Debug, Clone)]
pub struct AskingServer {
    /// The way to it.
    pub network: Arc<ServerNetwork>,
    /// The revision that it speaks, if it is known.
    pub revision: Option<Revision>,
}

impl From<&Backend> for AskingServer {
    /// Names a backend that asks outside of calls: of its own accord a server of the modern era asks nothing,
    /// and one of both eras has the revision of its session, which is unknown here.
    fn from(backend: &Backend) -> Self {
        let revision = backend.revision().filter(|revision| revision.era() == Era::Legacy);
        Self { network: Arc::clone(backend.network()), revision }
    }
}

/// Returns the map of events that follows each question in a span below the exchange whose context is
/// `exchange`. The map does not keep the span of the exchange, which ends with its request: the map may live
/// longer.
pub(super) fn of_events(exchange: &TraceContext, server: AskingServer) -> EventMap {
    let exchange = TraceContext { baggage: None, ..exchange.clone() };
    Arc::new(move |event| {
        Some(match event {
            Event::Question(question) => Event::Question(followed(question, &exchange, &server)),
            event @ Event::Notification(_) => event,
        })
    })
}

/// Begins the span of a backend's question, of kind SERVER; the answer, or the end of the wait for it, ends
/// the span. It continues the trace in the question's `_meta` and is linked to `exchange`; without such a
/// trace it is below `exchange`, which is empty for a question outside of calls. The parameters take the
/// span's trace along.
pub fn followed(question: Question, exchange: &TraceContext, server: &AskingServer) -> Question {
    let Question { id, method, params, answer: mut asked } = question;
    let own = traces::trace_of_params(params.as_deref());
    let caller = if own.traceparent.is_some() {
        IncomingTrace { context: own, ambient: exchange.traceparent.as_deref().map(Box::from) }
    } else {
        IncomingTrace { context: exchange.clone(), ambient: None }
    };
    let span = traces::begin_continued("question", &caller, |open| {
        open.rename(&[method_label(&method)]);
        open.server();
        open.text("mcp.method.name", &shortened(&method));
        open.optional("mcp.protocol.version", server.revision.map(Revision::as_str));
        exchange_span::fill_transport(open, &server.network);
        if let Some(id) = &id {
            open.text("jsonrpc.request.id", &shortened(&text::unquoted(id).unwrap_or(Cow::Borrowed(&**id))));
        }
    });
    if span.is_none() {
        return Question { id, method, params, answer: asked };
    }
    let traced = traces::params_in_trace(params.as_deref(), &span);
    let (answer, answered) = oneshot::channel();
    tokio::spawn(async move {
        let outcome = tokio::select! {
            outcome = answered => outcome.ok(),
            // No answer is wanted any longer: dropping the receiver withdraws the question.
            () = asked.closed() => None,
        };
        mark(&span, outcome.as_ref());
        drop(span);
        if let Some(outcome) = outcome {
            // A backend that is gone needs no answer.
            let _ = asked.send(outcome);
        }
    });
    Question { id, method, params: traced.or(params), answer }
}

/// Begins the span of a question to a client, of kind CLIENT, below the trace that the question carries.
/// Returns the span, and the parameters with its trace in `_meta`; `None` if they stay as they are.
pub fn sent(question: &Question, fill: impl FnOnce(&mut OpenSpan)) -> (TraceSpan, Option<Box<RawValue>>) {
    let params = question.params.as_deref();
    let caller = IncomingTrace { context: traces::trace_of_params(params), ambient: None };
    let span = traces::begin_continued("question", &caller, |open| {
        open.rename(&[method_label(&question.method)]);
        open.client();
        open.text("mcp.method.name", &shortened(&question.method));
        fill(open);
    });
    let traced = traces::params_in_trace(params, &span);
    (span, traced)
}

/// Writes the end of a question into its span; `None` stands for a question without an answer.
pub fn mark(span: &TraceSpan, outcome: Option<&RpcOutcome>) {
    match outcome {
        Some(RpcOutcome::Error(error)) => failure(error).mark(span),
        Some(RpcOutcome::Result(_) | RpcOutcome::Arriving(_)) => {}
        None => OperationFailure::Cancelled.mark(span),
    }
}

/// Returns the failure that a client answered.
fn failure(error: &RawValue) -> OperationFailure {
    let error = Object::parse(error).unwrap_or_default();
    let code = error.text("code").and_then(|code| code.parse().ok()).unwrap_or_default();
    let message = error.get_str("message").map(Cow::into_owned).unwrap_or_default();
    OperationFailure::Rpc { code, message }
}

#[cfg(test)]
mod tests {
    use vmcp_json::text::empty_object;

    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[tokio::test]
    async fn without_an_exporter_a_question_is_as_it_was() {
        let (answer, answered) = oneshot::channel();
        let params = Some(raw("{\"message\":\"?\"}"));
        let question = Question { id: None, method: "elicitation/create".into(), params, answer };
        let network = ServerNetwork { transport: "pipe", protocol: "", address: "".into(), port: None };
        let server = AskingServer { network: network.into(), revision: None };
        let follow = of_events(&TraceContext::default(), server);
        let Some(Event::Question(asked)) = follow(Event::Question(question)) else { panic!("a question") };
        let (span, traced) = sent(&asked, |_| panic!("there is no span"));
        assert!(span.is_none() && traced.is_none());
        assert_eq!(asked.params.as_deref().map(RawValue::get), Some("{\"message\":\"?\"}"));
        assert!(asked.answer.send(RpcOutcome::result(empty_object())).is_ok());
        assert!(matches!(answered.await, Ok(RpcOutcome::Result(_))));
    }

    #[test]
    fn the_code_of_a_clients_error_is_read() {
        let error = raw(r#"{"code":-32601,"message":"no"}"#);
        assert_eq!(failure(&error), OperationFailure::Rpc { code: -32601, message: "no".to_owned() });
    }
}
