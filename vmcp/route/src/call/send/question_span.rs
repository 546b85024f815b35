//! The span of a question that a backend asks a client during a call, of kind CLIENT: the server sends that
//! message, so the roles of the conventions swap.
//!
//! Source: open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md (status Development).

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::oneshot;
use vmcp_backend::{Event, EventMap, Question, RpcOutcome};
use vmcp_json::object::Object;
use vmcp_json::text::{self, empty_object};
use vmcp_wire::meta::{META, Meta, TRACEPARENT, TRACESTATE};

use vmcp_engine::telemetry::metrics::method_label;
use vmcp_engine::telemetry::operations::{OperationFailure, shortened};
use vmcp_engine::telemetry::traces::{self, IncomingTrace, TraceContext, TraceSpan};

/// Returns the map of events that follows each question in a span below the exchange whose context is
/// `exchange`. The map does not keep the span, which ends with its request: the map may live longer.
pub(super) fn of_events(exchange: &TraceContext) -> EventMap {
    let exchange = TraceContext { baggage: None, ..exchange.clone() };
    Arc::new(move |event| {
        Some(match event {
            Event::Question(question) => Event::Question(followed(question, &exchange)),
            event @ Event::Notification(_) => event,
        })
    })
}

/// Begins the span of a question; the answer, or the end of the wait for it, ends the span.
fn followed(question: Question, exchange: &TraceContext) -> Question {
    let Question { method, params, answer: mut asked } = question;
    let span = TraceSpan::root("question", |open| {
        open.rename(&[method_label(&method)]);
        open.client();
        open.text("mcp.method.name", &shortened(&method));
    });
    if span.is_none() {
        return Question { method, params, answer: asked };
    }
    let traced = in_trace(params.as_deref().unwrap_or(empty_object()), &span, exchange);
    let (answer, answered) = oneshot::channel();
    tokio::spawn(async move {
        let outcome = tokio::select! {
            outcome = answered => outcome.ok(),
            // No answer is wanted any longer: dropping the receiver withdraws the question.
            () = asked.closed() => None,
        };
        match outcome {
            Some(outcome) => {
                if let RpcOutcome::Error(error) = &outcome {
                    failure(error).mark(&span);
                }
                drop(span);
                // A backend that is gone needs no answer.
                let _ = asked.send(outcome);
            }
            None => OperationFailure::Cancelled.mark(&span),
        }
    });
    Question { method, params: traced.or(params), answer }
}

/// Puts the span below `exchange`, linked to a trace that the backend sent. Returns the parameters with the
/// trace of the span in `_meta`.
fn in_trace(params: &RawValue, span: &TraceSpan, exchange: &TraceContext) -> Option<Box<RawValue>> {
    let parsed = Object::parse(params);
    let is_object = parsed.is_ok();
    let object = parsed.unwrap_or_default();
    let meta = object.text(META).and_then(|meta| Object::parse_valid(meta).ok()).unwrap_or_default();
    let ambient = Meta::from(meta.clone()).trace().traceparent.map(Box::from);
    traces::continue_trace(span, &IncomingTrace { context: exchange.clone(), ambient });
    let TraceContext { traceparent, tracestate, .. } = traces::outgoing(span, &TraceContext::default());
    let mut inner = meta.edit();
    inner.set(TRACEPARENT, text::quoted(&traceparent?));
    match tracestate {
        Some(tracestate) => inner.set(TRACESTATE, text::quoted(&tracestate)),
        None => inner.remove(TRACESTATE),
    };
    let inner = inner.finish().into_cow().into_owned();
    let mut edit = object.edit();
    edit.set(META, inner);
    edit.finish().into_raw().ok().filter(|_| is_object)
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
    use super::*;

    #[tokio::test]
    async fn without_an_exporter_a_question_is_as_it_was() {
        let (answer, answered) = oneshot::channel();
        let params = RawValue::from_string("{\"message\":\"?\"}".to_owned()).ok();
        let question = Question { method: "elicitation/create".into(), params, answer };
        let Some(Event::Question(asked)) = of_events(&TraceContext::default())(Event::Question(question))
        else {
            panic!("a question")
        };
        assert_eq!(asked.params.as_deref().map(RawValue::get), Some("{\"message\":\"?\"}"));
        assert!(asked.answer.send(RpcOutcome::result(empty_object())).is_ok());
        assert!(matches!(answered.await, Ok(RpcOutcome::Result(_))));
    }

    #[test]
    fn the_code_of_a_clients_error_is_read() {
        let error = RawValue::from_string(r#"{"code":-32601,"message":"no"}"#.to_owned()).unwrap();
        assert_eq!(failure(&error), OperationFailure::Rpc { code: -32601, message: "no".to_owned() });
    }
}
