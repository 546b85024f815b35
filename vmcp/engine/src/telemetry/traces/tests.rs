//! Spans at an exporter of the test, and beside those of `tracing-opentelemetry`.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;

use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{TraceContextExt as _, TracerProvider as _};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span as WireSpan;
use opentelemetry_proto::tonic::trace::v1::span::Event;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData};
use prost::Message as _;
use serde_json::json;
use tracing::field::Empty;
use tracing_subscriber::layer::SubscriberExt as _;

use super::*;

#[test]
fn a_redirect_takes_the_key_to_no_other_host() {
    // An error means that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (collector, other) = (listen(), listen());
    let file = json!({ "telemetry": {
        "endpoint": format!("http://{}", collector.local_addr().unwrap()),
        "samplingRate": "1", "headers": { "x-api-key": "secret" },
    } });
    let settings = vmcp_config::load(&file.to_string(), "f", &|_| None).unwrap().config.telemetry;
    let elsewhere = other.local_addr().unwrap();
    let redirecting = std::thread::spawn(move || {
        let (mut client, _) = collector.accept().unwrap();
        let mut request = [0; 4096];
        let length = client.read(&mut request).unwrap();
        let answer = "content-length: 0\r\nconnection: close";
        write!(client, "HTTP/1.1 307 x\r\nlocation: http://{elsewhere}/v1/traces\r\n{answer}\r\n\r\n")
            .unwrap();
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let exporter = Exporter::new(settings.traces.as_ref().unwrap(), &settings).unwrap();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(exporter.layer()), || {
        drop(TraceSpan::begin("request", OpenSpan::server));
    });
    exporter.shutdown();
    assert!(redirecting.join().unwrap().contains("x-api-key: secret"), "the collector itself gets it");
    other.set_nonblocking(true).unwrap();
    assert!(other.accept().is_err(), "the other host was asked");
}

/// Returns a layer whose spans are told, and the receiver of them.
pub(super) fn told_layer() -> (SpanEvents, mpsc::Receiver<WireSpan>) {
    let (tell, told) = mpsc::channel();
    let send = move |request: Bytes| {
        let request = ExportTraceServiceRequest::decode(request).unwrap();
        let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        for span in scopes.flat_map(|scope| scope.spans) {
            // The test may have ended.
            let _ = tell.send(span);
        }
        Ok(Bytes::new())
    };
    let queue = SpanQueue::start(ResourceMessage::default(), send).unwrap();
    (SpanEvents { exporter: SpanExporter::new(queue, Sampling::new(1.0)) }, told)
}

/// Tells the spans that `tracing-opentelemetry` makes.
#[derive(Debug)]
struct Telling(mpsc::Sender<WireSpan>);

impl opentelemetry_sdk::trace::SpanExporter for Telling {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        for span in batch {
            // The test may have ended.
            let _ = self.0.send(span.into());
        }
        Ok(())
    }
}

/// Writes lines, three of them to be events.
fn some_lines() {
    let is_new = true;
    let name = "hello";
    tracing::info!(target: "vmcp_edge", tool = "echo", number = 7, share = 0.5, is_new, "said {name}");
    tracing::info!(target: "vmcp_edge", count = 3_u64, of = ?["a"], "said more");
    tracing::warn!(target: "vmcp_edge", error = "slow", "without an answer");
    tracing::debug!(target: "vmcp_edge", "below the level");
    tracing::error!(target: "hyper", "of a library");
    tracing::error!(target: "vmcp_backend", "of a backend");
}

/// Makes spans and events of each form that the code has.
fn own_spans() {
    let root = TraceSpan::begin("request", |open| {
        open.rename(&["tools/call", " ", "echo"]);
        open.server();
        open.text("tool", "echo");
        open.optional("absent", None);
        open.optional("present", Some("yes"));
        open.number("count", 3);
    });
    root.in_scope(|| {
        some_lines();
        let below = TraceSpan::begin("search.keyword", |open| open.number("matches", 3));
        below.in_scope(|| tracing::error!(target: "vmcp_search", error = "no index", "it failed"));
    });
    drop(root.below("exchange", OpenSpan::client));
    root.text("later", "value");
    root.fill(OpenSpan::succeed);
}

/// Makes the same spans as [`own_spans`], for the library.
fn spans_of_tracing() {
    let root = tracing::info_span!(
        target: "vmcp::request", "request", otel.name = "tools/call echo", otel.kind = "server",
        tool = "echo", absent = None::<&str>, present = "yes", count = 3_i64,
        later = Empty, otel.status_code = Empty
    );
    root.in_scope(|| {
        some_lines();
        let below = tracing::info_span!(target: "vmcp::search", "search.keyword", matches = 3_i64);
        below.in_scope(|| tracing::error!(target: "vmcp_search", error = "no index", "it failed"));
    });
    drop(tracing::info_span!(target: "vmcp::request", parent: &root, "exchange", otel.kind = "client"));
    root.record("later", "value").record("otel.status_code", "OK");
}

/// Returns spans in the order of their names, with the name of the parent as its id. Other ids and times,
/// which differ from run to run, are left out, and so is the target, which the library adds.
fn comparable(spans: &[WireSpan]) -> Vec<WireSpan> {
    let name = |id: &[u8]| {
        let found = spans.iter().find(|span| !id.is_empty() && span.span_id == id);
        found.map(|span| span.name.clone().into_bytes()).unwrap_or_default()
    };
    let mut comparable: Vec<_> = spans
        .iter()
        .cloned()
        .map(|span| WireSpan {
            parent_span_id: name(&span.parent_span_id),
            trace_id: Vec::new(),
            span_id: Vec::new(),
            start_time_unix_nano: 0,
            end_time_unix_nano: 0,
            attributes: span.attributes.into_iter().filter(|it| it.key != "target").collect(),
            events: span.events.into_iter().map(|event| Event { time_unix_nano: 0, ..event }).collect(),
            ..span
        })
        .collect();
    comparable.sort_by(|one, other| one.name.cmp(&other.name));
    comparable
}

#[test]
fn spans_are_those_of_the_library_without_targets_source_lines_threads_and_busy_times() {
    let (layer, told) = told_layer();
    let exporter = layer.exporter.clone();
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(own_lines()));
    tracing::subscriber::with_default(subscriber, own_spans);
    exporter.queue.finish().unwrap();
    let own = comparable(&told.try_iter().collect::<Vec<_>>());

    let (tell, told) = mpsc::channel();
    let provider = SdkTracerProvider::builder().with_simple_exporter(Telling(tell)).build();
    let library = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let library = library.with_location(false).with_threads(false).with_tracked_inactivity(false);
    let subscriber = tracing_subscriber::registry().with(library.with_filter(own_lines()));
    tracing::subscriber::with_default(subscriber, spans_of_tracing);
    let theirs = comparable(&told.try_iter().collect::<Vec<_>>());

    assert_eq!(own.len(), 3, "{own:#?}");
    assert_eq!(own.iter().map(|span| span.events.len()).sum::<usize>(), 4, "{own:#?}");
    assert_eq!(own, theirs);
}

#[test]
fn a_span_ends_with_its_last_handle_after_those_below_it_or_before() {
    let (layer, told) = told_layer();
    let exporter = layer.exporter.clone();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        let root = TraceSpan::begin("root", |_| ());
        let (other, below) = (root.clone(), root.below("below", |_| ()));
        drop(root);
        other.text("still", "open");
        drop(other);
        // The trace of a span that has ended goes on.
        drop(below.below("last", |_| ()));
    });
    exporter.queue.finish().unwrap();
    let spans: Vec<_> = told.try_iter().collect();
    let names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["root", "last", "below"]);
    assert_eq!(spans[0].attributes.len(), 1);
    assert_eq!(spans[2].parent_span_id, spans[0].span_id);
    assert!(spans.iter().all(|span| span.trace_id == spans[0].trace_id));
    assert!(spans[2].start_time_unix_nano <= spans[1].start_time_unix_nano);
}

#[test]
fn the_trace_that_is_sent_on_is_that_of_the_span_with_the_baggage_of_the_caller() {
    let of_client = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
    let caller = TraceContext {
        traceparent: Some(of_client.into()),
        tracestate: Some("vendor=1".into()),
        baggage: Some("user=alice".into()),
    };
    let spans = tracing_subscriber::registry().with(told_layer().0);
    tracing::subscriber::with_default(spans, || {
        let trace = IncomingTrace { context: caller.clone(), ambient: None };
        let span = begin_continued("request", &trace, |_| ());
        let sent = outgoing(&span, &caller);
        assert_eq!(sent.tracestate.as_deref(), Some("vendor=1"));
        assert_eq!(sent.baggage.as_deref(), Some("user=alice"));
        let traceparent = sent.traceparent.clone().unwrap();
        let own = hex::encode(ids(&span).unwrap().span);
        assert_eq!(traceparent, format!("00-0af7651916cd43dd8448eb211c80319c-{own}-01"));
        assert_ne!(traceparent, of_client);
        let below = span.below("exchange", |_| ());
        assert_eq!(trace_id(&outgoing(&below, &TraceContext::default())), trace_id(&caller));
        assert_eq!(trace_of(&below, &TraceContext::default()), trace_id(&caller));
    });
    assert_eq!(outgoing(&TraceSpan::none(), &caller).traceparent, caller.traceparent);
    assert_eq!(trace_of(&TraceSpan::none(), &caller), trace_id(&caller));
}

#[test]
fn a_callers_span_is_the_one_that_the_propagator_of_the_library_reads() {
    let trace = "-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-";
    let others = ["00-1-2-01", "", "00", "00--01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"];
    let mut texts: Vec<_> = others.map(str::to_owned).into();
    for version in ["00", "01", "fe", "ff", "FF", "0", "cc"] {
        for flags in ["00", "01", "02", "03", "ff", "FF", "0", "01-", "01-more", "01 ", "0g"] {
            texts.push([version, trace, flags].concat());
        }
    }
    let states = [None, Some(""), Some("vendor=1"), Some("a=1,b=2"), Some("no state"), Some("a=1,=2,ä=3")];
    let mut read = 0;
    for (text, state) in texts.iter().flat_map(|text| states.map(|state| (text, state))) {
        let own = span_context(text, state);
        assert_eq!(own.is_some(), is_traceparent(text), "{text}");
        let Some(own) = own else { continue };
        let mut headers = HashMap::from([("traceparent".to_owned(), text.clone())]);
        headers.extend(state.map(|state| ("tracestate".to_owned(), state.to_owned())));
        let theirs = TraceContextPropagator::new().extract(&headers);
        assert_eq!(own, *theirs.span().span_context(), "{text} {state:?}");
        read += 1;
    }
    assert!(read > 100, "{read}");
}

#[test]
fn a_root_that_is_not_sampled_keeps_its_attributes_for_a_trace_that_is() {
    let (layer, told) = told_layer();
    let exporter = SpanExporter { sampling: Sampling::new(0.0), ..layer.exporter };
    let queue = std::sync::Arc::clone(&exporter.queue);
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
    let context = TraceContext { traceparent: Some(traceparent.into()), ..TraceContext::default() };
    let ambient = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
    let trace = IncomingTrace { context, ambient };
    let subscriber = tracing_subscriber::registry().with(SpanEvents { exporter });
    tracing::subscriber::with_default(subscriber, || {
        let attribute = |open: &mut OpenSpan| open.text("tool", "echo");
        drop(TraceSpan::begin("alone", attribute));
        drop(TraceSpan::root("alone", attribute));
        drop(begin_continued("alone", &IncomingTrace::default(), attribute));
        let deferred = TraceSpan::root("later", attribute);
        continue_trace(&deferred, &trace);
        drop(deferred);
        drop(begin_continued("at once", &trace, attribute));
    });
    queue.finish().unwrap();
    let spans: Vec<_> = told.try_iter().collect();
    assert_eq!(spans.iter().map(|span| &*span.name).collect::<Vec<_>>(), ["later", "at once"]);
    for span in spans {
        assert_eq!((span.attributes.len(), span.links.len()), (1, 1), "{span:?}");
        assert_eq!(hex::encode(span.parent_span_id), "00f067aa0ba902b7");
    }
}

#[test]
fn a_client_that_does_not_sample_gets_no_spans_and_its_trace_goes_on() {
    let (layer, told) = told_layer();
    let exporter = layer.exporter.clone();
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-00";
    let context = TraceContext { traceparent: Some(traceparent.into()), ..TraceContext::default() };
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        let trace = IncomingTrace { context: context.clone(), ambient: None };
        let deferred = TraceSpan::root("question", |open| open.text("tool", "echo"));
        continue_trace(&deferred, &trace);
        let span = begin_continued("request", &trace, |open| open.text("tool", "echo"));
        assert_eq!(trace_id(&outgoing(&deferred, &context)), trace_id(&outgoing(&span, &context)));
        let below = span.in_scope(|| TraceSpan::begin("backend.call", OpenSpan::call));
        assert_eq!(exemplar(&span), None);
        let sent = outgoing(&below, &context).traceparent.unwrap();
        assert!(sent.starts_with("00-0af7651916cd43dd8448eb211c80319c-"), "{sent}");
        assert!(sent.ends_with("-00") && sent != traceparent, "{sent}");
    });
    exporter.queue.finish().unwrap();
    assert_eq!(told.try_iter().count(), 0);
}

fn listen() -> TcpListener {
    TcpListener::bind(("127.0.0.1", 0)).unwrap()
}
