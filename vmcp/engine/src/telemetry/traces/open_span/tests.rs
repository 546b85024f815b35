//! Random spans, encoded here and by the library, read alike.

use std::time::{Duration, UNIX_EPOCH};

use opentelemetry::trace::{Event, Link};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{Span as WireSpan, Status as WireStatus};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use prost::Message as _;

use super::super::span_message::{ResourceMessage, SpanBatch};
use super::*;

/// Spans that differ in everything that a span may have, the same ones for the same seed.
struct RandomSpans(fastrand::Rng);

impl RandomSpans {
    fn number(&mut self) -> u32 {
        if self.0.bool() { 0 } else { self.0.u32(..) }
    }

    fn text(&mut self) -> String {
        let longest = [0, 3, 130, 300, 20_000][self.0.usize(..5)];
        let length = self.0.usize(..=longest);
        (0..length).map(|_| self.0.char('\u{20}'..'\u{2ff}')).collect()
    }

    fn time(&mut self) -> SystemTime {
        let since = Duration::from_nanos(self.0.u64(..1 << 62));
        if self.0.bool() { UNIX_EPOCH + since } else { UNIX_EPOCH - since }
    }

    fn value(&mut self) -> Value {
        match self.0.u8(..4) {
            0 => Value::Bool(self.0.bool()),
            1 => Value::I64([0, 1, -1, i64::MIN, i64::MAX, self.0.i64(..)][self.0.usize(..6)]),
            2 => Value::F64([0.0, -1.5, f64::INFINITY, f64::MIN_POSITIVE, self.0.f64()][self.0.usize(..5)]),
            _ => Value::String(self.text().into()),
        }
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.0.usize(..4)).map(|_| item(self)).collect()
    }

    fn attributes(&mut self) -> Vec<KeyValue> {
        self.list(|random| KeyValue::new(random.text(), random.value()))
    }

    /// Returns a context that is valid.
    fn context(&mut self) -> SpanContext {
        let states = ["", "vendor=1", "a=b,c=d"];
        let state: TraceState = states[self.0.usize(..3)].parse().unwrap();
        let (trace, span) = (TraceId::from(self.0.u128(1..)), SpanId::from(self.0.u64(1..)));
        SpanContext::new(trace, span, TraceFlags::new(self.0.u8(..)), self.0.bool(), state)
    }

    fn event(&mut self) -> Event {
        let (name, time, attributes) = (self.text(), self.time(), self.attributes());
        Event::new(name, time, attributes, 0)
    }

    fn span(&mut self) -> SpanData {
        let mut events = SpanEvents::default();
        events.events = self.list(Self::event);
        events.dropped_count = self.number();
        let mut links = SpanLinks::default();
        links.links = self.list(|random| Link::with_context(random.context()));
        links.dropped_count = self.number();
        let status = match self.0.u8(..3) {
            0 => Status::Unset,
            1 => Status::Ok,
            _ => Status::error(self.text()),
        };
        let kinds =
            [SpanKind::Client, SpanKind::Server, SpanKind::Producer, SpanKind::Consumer, SpanKind::Internal];
        SpanData {
            span_context: self.context(),
            parent_span_id: if self.0.bool() { SpanId::INVALID } else { SpanId::from(self.0.u64(..)) },
            parent_span_is_remote: self.0.bool(),
            span_kind: kinds[self.0.usize(..5)].clone(),
            name: Cow::Owned(self.text()),
            start_time: self.time(),
            end_time: self.time(),
            attributes: self.attributes(),
            dropped_attributes_count: self.number(),
            events,
            links,
            status,
            instrumentation_scope: InstrumentationScope::builder("vmcp").build(),
        }
    }
}

fn begin(name: &'static str, parent: Option<&SpanContext>, share: f64) -> OpenSpan {
    OpenSpan::begin(ProtobufWriter::default(), name, parent, Sampling::new(share))
}

/// Returns the span of the SDK as it is here before its end.
fn opened(span: &SpanData) -> OpenSpan {
    let dropped = |dropped| Count { kept: 0, dropped };
    let mut open = OpenSpan {
        context: span.span_context.clone(),
        parent: span.parent_span_id,
        parent_is_remote: span.parent_span_is_remote,
        kind: span.span_kind.clone(),
        start: span.start_time,
        attributes: dropped(span.dropped_attributes_count),
        events: dropped(span.events.dropped_count),
        links: dropped(span.links.dropped_count),
        ..begin("", None, 1.0)
    };
    open.rename(&[&span.name]);
    for attribute in &span.attributes {
        open.attribute(attribute.key.as_str(), AttributeValue::of(&attribute.value).unwrap());
    }
    for event in &span.events.events {
        let mut message = ProtobufWriter::default();
        message.fixed64(1, nanoseconds(event.timestamp));
        for attribute in &event.attributes {
            let value = AttributeValue::of(&attribute.value).unwrap();
            message.message(3, |message| write_attribute(message, attribute.key.as_str(), value));
        }
        message.text(2, &event.name);
        open.event(&message);
    }
    for link in &span.links.links {
        open.link(&link.span_context);
    }
    open.set_status(span.status.clone());
    open
}

#[test]
fn a_request_reads_as_the_librarys_own_for_any_spans() {
    let resources = [
        Resource::builder_empty().build(),
        Resource::builder_empty()
            .with_schema_url([KeyValue::new("service.name", "vmcp")], "https://schema.example/2")
            .with_attributes([KeyValue::new("replicas", 3_i64), KeyValue::new("is.test", true)])
            .build(),
    ];
    for seed in 0..500 {
        let mut random = RandomSpans(fastrand::Rng::with_seed(seed));
        let spans: Vec<_> = (0..random.0.usize(1..6)).map(|_| random.span()).collect();
        let resource = &resources[random.0.usize(..2)];
        let message = ResourceMessage::from(resource);
        // A batch without room is copied.
        let room = if random.0.bool() { message.room() } else { 0 };
        let mut batch = SpanBatch::within(b"of an earlier batch".to_vec(), room);
        for span in &spans {
            batch.add(opened(span).encode(span.end_time));
        }
        assert_eq!(batch.count(), spans.len());
        let bytes = batch.into_request(&message);
        let read = ExportTraceServiceRequest::decode(&*bytes).unwrap();
        let resource = ResourceAttributesWithSchema::from(resource);
        let resource_spans = group_spans_by_resource_and_scope(spans, &resource);
        assert_eq!(read, ExportTraceServiceRequest { resource_spans }, "seed {seed}");
    }
}

#[test]
fn attributes_events_and_links_beyond_the_limit_are_counted() {
    let mut span = begin("a span", None, 1.0);
    let (event, other) = (ProtobufWriter::default(), span.context().clone());
    for _ in 0..MAX_OF_EACH + 3 {
        span.attribute("key", AttributeValue::Bool(true));
        span.event(&event);
        span.link(&other);
    }
    let counts = [span.attributes, span.events, span.links].map(|count| (count.kept, count.dropped));
    assert_eq!(counts, [(MAX_OF_EACH, 3); 3]);
}

#[test]
fn a_parent_decides_about_its_trace_and_otherwise_the_share() {
    let begin = |parent: Option<&SpanContext>, share| begin("a span", parent, share);
    let (all, none) = (begin(None, 1.0), begin(None, 0.0));
    assert!(all.context().is_sampled() && !none.context().is_sampled());
    for (parent, share) in [(&all, 0.0), (&none, 1.0)] {
        let child = begin(Some(parent.context()), share);
        assert_eq!(child.context().is_sampled(), parent.context().is_sampled());
        assert_eq!(child.context().trace_id(), parent.context().trace_id());
        assert_eq!(child.parent, parent.context().span_id());
        let mut continued = begin(None, share);
        let own = continued.context().span_id();
        continued.continue_trace(parent.context());
        assert_eq!(continued.context().is_sampled(), parent.context().is_sampled());
        assert_eq!((continued.context().span_id(), continued.parent), (own, parent.context().span_id()));
    }
    let sampled = (0..10_000).filter(|_| begin(None, 0.25).context().is_sampled()).count();
    assert!((2_000..3_000).contains(&sampled), "{sampled}");
}

#[test]
fn success_outweighs_an_error_and_the_first_words_about_an_error_stay() {
    let mut span = begin("a span", None, 1.0);
    for (set, expected) in [
        (Status::error(""), Status::error("")),
        (Status::error("no answer"), Status::error("no answer")),
        (Status::error("later"), Status::error("no answer")),
        (Status::Unset, Status::error("no answer")),
        (Status::Ok, Status::Ok),
        (Status::error("later"), Status::Ok),
    ] {
        span.set_status(set);
        assert_eq!(span.status, expected);
    }
}

#[test]
fn a_request_id_is_that_of_the_last_try_and_of_spans_of_requests_alone() {
    for (is_request, expected) in [(true, Some("8")), (false, None)] {
        let mut open = begin("a span", None, 1.0);
        if is_request {
            open.client();
        }
        open.note_request_id(7);
        open.note_request_id(8);
        let resource = ResourceMessage::default();
        let mut batch = SpanBatch::within(Vec::new(), resource.room());
        let end = open.start;
        batch.add(open.encode(end));
        let request = ExportTraceServiceRequest::decode(batch.into_request(&resource)).unwrap();
        let attributes = &request.resource_spans[0].scope_spans[0].spans[0].attributes;
        let ids: Vec<_> = attributes.iter().filter(|attribute| attribute.key == REQUEST_ID).collect();
        let texts = ids.iter().map(|attribute| format!("{:?}", attribute.value)).collect::<Vec<_>>();
        assert_eq!(texts.len(), usize::from(expected.is_some()), "{texts:?}");
        assert!(expected.is_none_or(|id| texts[0].contains(&format!("{id:?}"))), "{texts:?}");
    }
}

#[test]
fn a_name_that_is_set_later_replaces_the_first_one() {
    let mut open = begin("first", None, 1.0);
    for parts in [&["tools/call", " ", "echo"][..], &["tools/list"][..]] {
        open.rename(parts);
    }
    let end = open.start;
    assert_eq!(WireSpan::decode(open.encode(end)).unwrap().name, "tools/list");
    let mut open = begin("first", None, 1.0);
    assert_eq!(WireSpan::decode(open.encode(end)).unwrap().name, "first");
}

#[test]
fn a_span_in_the_place_of_another_one_has_nothing_of_it() {
    let state: TraceState = "vendor=1".parse().unwrap();
    let (trace, id) = (TraceId::from(7_u128), SpanId::from(9_u64));
    let parent = SpanContext::new(trace, id, TraceFlags::SAMPLED, true, state);
    let mut open = begin("first", Some(&parent), 1.0);
    open.rename(&["a name"]);
    open.client();
    open.call();
    open.note_request_id(7);
    open.text("key", "value");
    open.link(&parent);
    open.fail("it failed");
    let (start, place) = (open.start, open.encode(open.start).as_ptr());
    open.clear();
    assert!(!open.context().trace_state().header().contains("vendor"), "texts of clients are freed");
    open = OpenSpan::begin(open.take_memory(), "second", None, Sampling::new(1.0));
    assert_eq!(open.encode(start).as_ptr(), place, "it grows in the same memory");
    let (trace, id) = (open.context.trace_id().to_bytes(), open.context.span_id().to_bytes());
    let expected = WireSpan {
        trace_id: trace.to_vec(),
        span_id: id.to_vec(),
        name: "second".to_owned(),
        kind: 1,
        start_time_unix_nano: nanoseconds(open.start),
        end_time_unix_nano: nanoseconds(start),
        status: Some(WireStatus::default()),
        flags: u32::from(TraceFlags::SAMPLED.to_u8()) | HAS_IS_REMOTE,
        ..WireSpan::default()
    };
    assert_eq!(WireSpan::decode(open.fields.as_bytes()).unwrap(), expected);
}
