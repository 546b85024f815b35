//! The W3C trace context of a message: from its `_meta`, and over HTTP also from the headers.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName};
use vmcp_wire::meta::{self, Trace};
use vmcp_wire::owned::OwnedMeta;

use vmcp_engine::telemetry::traces::{IncomingTrace, TraceContext};

static TRACEPARENT: HeaderName = HeaderName::from_static(meta::TRACEPARENT);
static TRACESTATE: HeaderName = HeaderName::from_static(meta::TRACESTATE);
static BAGGAGE: HeaderName = HeaderName::from_static(meta::BAGGAGE);

/// Returns the trace in a message's `_meta`.
pub(super) fn of_message(meta: OwnedMeta<'_>) -> TraceContext {
    let Trace { traceparent, tracestate, baggage } = meta.trace();
    let owned = |text: Option<Cow<'_, str>>| text.map(|text| Cow::Owned(text.into_owned()));
    TraceContext { traceparent: owned(traceparent), tracestate: owned(tracestate), baggage: owned(baggage) }
}

/// Returns the trace of an HTTP message: `_meta`, the protocol's own carrier, or else the headers that
/// proxies and other clients set. Headers of another span than that of `_meta` are its ambient one.
pub(super) fn of_http(meta: OwnedMeta<'_>, headers: &HeaderMap) -> IncomingTrace {
    let traceparent = only(headers, &TRACEPARENT).filter(|text| meta::is_traceparent(text));
    let carried = of_message(meta);
    if let Some(own) = carried.traceparent.as_deref() {
        let ambient = traceparent.filter(|text| *text != own).map(Box::from);
        return IncomingTrace { context: carried, ambient };
    }
    let context = TraceContext {
        traceparent: traceparent.map(|text| Cow::Owned(text.to_owned())),
        tracestate: traceparent
            .and_then(|_| joined(headers, &TRACESTATE))
            .filter(|text| meta::is_tracestate(text)),
        baggage: carried.baggage.or_else(|| joined(headers, &BAGGAGE)),
    };
    IncomingTrace { context, ambient: None }
}

/// Returns the value of a header that stands on one line alone.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next()?;
    if lines.next().is_some() { None } else { line.to_str().ok() }
}

/// Returns the value of a header that is a list: its lines are one list (RFC 9110, 5.3).
fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<Cow<'static, str>> {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    (!lines.is_empty()).then(|| Cow::Owned(lines.join(",")))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use vmcp_wire::owned::OwnedParams;

    use super::*;

    const HEADER: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
    const OWN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    /// Returns traceparent, tracestate, baggage and the ambient span of a message.
    fn read(meta: &str, lines: &[(&'static str, &'static str)]) -> [String; 4] {
        let params = OwnedParams::from_text(format!("{{\"_meta\":{meta}}}")).unwrap();
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let IncomingTrace { context, ambient } = of_http(params.meta(), &headers);
        let text = |text: Option<Cow<'static, str>>| text.map(Cow::into_owned).unwrap_or_default();
        let ambient = ambient.map(String::from).unwrap_or_default();
        [text(context.traceparent), text(context.tracestate), text(context.baggage), ambient]
    }

    #[test]
    fn the_message_comes_first_and_the_headers_of_another_span_are_its_ambient_one() {
        let own = format!("{{\"traceparent\":\"{OWN}\",\"baggage\":\"a=1\"}}");
        let lines = [("traceparent", HEADER), ("tracestate", "v=1"), ("baggage", "b=2")];
        assert_eq!(read(&own, &lines), [OWN, "", "a=1", HEADER]);
        assert_eq!(read("{}", &lines), [HEADER, "v=1", "b=2", ""]);
        assert_eq!(read(r#"{"baggage":"a=1"}"#, &lines), [HEADER, "v=1", "a=1", ""]);
        let broken = r#"{"traceparent":"00-x","tracestate":"w=2"}"#;
        assert_eq!(read(broken, &lines), [HEADER, "v=1", "b=2", ""], "an ill-formed one counts for nothing");
    }

    #[test]
    fn lists_on_several_lines_are_one_and_baggage_needs_no_trace() {
        let lists = [("tracestate", "v=1"), ("baggage", "a=1"), ("tracestate", "w=2"), ("baggage", "b=2")];
        let with_trace = [&lists[..], &[("traceparent", HEADER)][..]].concat();
        assert_eq!(read("{}", &with_trace), [HEADER, "v=1,w=2", "a=1,b=2", ""]);
        assert_eq!(read("{}", &lists), ["", "", "a=1,b=2", ""], "a state without its trace means nothing");
        let broken = [("traceparent", HEADER), ("tracestate", "v=1"), ("tracestate", "W=2")];
        assert_eq!(read("{}", &broken), [HEADER, "", "", ""], "a bad member discards the list");
        let twice = [("traceparent", HEADER), ("traceparent", OWN), ("baggage", "a=1")];
        assert_eq!(read("{}", &twice), ["", "", "a=1", ""], "two parents are none");
    }
}
