//! The trace in the `_meta` of a message's parameters.

use std::borrow::Cow;

use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_json::text::{self, empty_object};
use vmcp_wire::meta::{META, Meta, TRACEPARENT, TRACESTATE, Trace};

use super::TraceContext;
use super::trace_span::TraceSpan;

/// Returns the trace in the `_meta` of parameters, without its baggage.
pub fn trace_of_params(params: Option<&RawValue>) -> TraceContext {
    let object = Object::parse(params.unwrap_or(empty_object())).unwrap_or_default();
    let meta = object.text(META).and_then(|meta| Object::parse_valid(meta).ok()).unwrap_or_default();
    let Trace { traceparent, tracestate, .. } = Meta::from(meta).trace();
    let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
    TraceContext { traceparent: traceparent.map(owned), tracestate: tracestate.map(owned), baggage: None }
}

/// Returns parameters with the trace of a span in `_meta`; `None` for the empty span, and for parameters
/// of another type than an object.
pub fn params_in_trace(params: Option<&RawValue>, span: &TraceSpan) -> Option<Box<RawValue>> {
    if span.is_none() {
        return None;
    }
    let object = Object::parse(params.unwrap_or(empty_object())).ok()?;
    let meta = object.text(META).and_then(|meta| Object::parse_valid(meta).ok()).unwrap_or_default();
    let TraceContext { traceparent, tracestate, .. } = super::outgoing(span, &TraceContext::default());
    let mut inner = meta.edit();
    inner.set(TRACEPARENT, text::quoted(&traceparent?));
    match tracestate {
        Some(tracestate) => inner.set(TRACESTATE, text::quoted(&tracestate)),
        None => inner.remove(TRACESTATE),
    };
    let inner = inner.finish().into_cow().into_owned();
    let mut edit = object.edit();
    edit.set(META, inner);
    edit.finish().into_raw().ok()
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::super::tests::told_layer;
    use super::*;

    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn a_trace_is_read_if_it_is_well_formed() {
        let read = |meta: &str| trace_of_params(Some(&raw(&format!("{{\"_meta\":{meta}}}"))));
        let found = read(&format!("{{\"traceparent\":\"{TRACE}\",\"tracestate\":\"a=1\"}}"));
        assert_eq!((found.traceparent.as_deref(), found.tracestate.as_deref()), (Some(TRACE), Some("a=1")));
        for meta in
            ["{}", "null", "[1]", "{\"traceparent\":7}", "{\"traceparent\":\"x\",\"tracestate\":\"a=1\"}"]
        {
            assert_eq!(read(meta), TraceContext::default(), "{meta}");
        }
        assert_eq!(trace_of_params(None), TraceContext::default());
    }

    #[test]
    fn a_span_replaces_the_trace_of_a_message_and_its_state() {
        let subscriber = tracing_subscriber::registry().with(told_layer().0);
        tracing::subscriber::with_default(subscriber, || {
            let span = TraceSpan::root("question", |_| ());
            let own =
                raw(&format!("{{\"_meta\":{{\"traceparent\":\"{TRACE}\",\"tracestate\":\"a=1\",\"x\":1}}}}"));
            for params in [None, Some(&*own)] {
                let written = params_in_trace(params, &span).unwrap();
                let found = trace_of_params(Some(&written));
                assert_eq!(found, super::super::outgoing(&span, &TraceContext::default()), "{written}");
                assert!(found.traceparent.is_some() && found.tracestate.is_none());
                assert_eq!(params.is_some(), written.get().contains("\"x\":1"), "{written}");
            }
            assert!(params_in_trace(Some(&raw("[1]")), &span).is_none());
            assert!(params_in_trace(None, &TraceSpan::none()).is_none());
        });
    }
}
