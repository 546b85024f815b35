//! Spans as messages of OTLP, encoded at once from the SDK's own form.
//!
//! Source: opentelemetry/proto/trace/v1/trace.proto, whose numbers of fields these are. The library's
//! exporter converts each span into structures of prost first, which doubles its allocations and the work of
//! the thread that exports.

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{Event, Link, SpanContext, SpanId, SpanKind, Status};
use opentelemetry::{Array, InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;

use super::protobuf::ProtobufWriter;

/// Flags of a span or link beside those of W3C: the other context is known to be local or remote, and it is
/// remote.
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// Bytes of a request beside its spans, roughly.
const ENVELOPE_BYTES: usize = 1024;

/// Spans that leave in one request, as they end.
#[derive(Debug, Default)]
pub(super) struct SpanBatch {
    scopes: Vec<ScopeSpans>,
    count: usize,
}

/// Spans of one tracer.
#[derive(Debug)]
struct ScopeSpans {
    scope: InstrumentationScope,
    spans: ProtobufWriter,
}

/// The resource of all spans, encoded once.
#[derive(Debug, Default)]
pub(super) struct ResourceMessage {
    fields: Vec<u8>,
    schema_url: String,
}

impl SpanBatch {
    /// Adds a span that has ended.
    pub(super) fn add(&mut self, span: &SpanData) {
        let scope = &span.instrumentation_scope;
        let place = self.scopes.iter().position(|known| known.scope == *scope);
        if place.is_none() {
            self.scopes.push(ScopeSpans { scope: scope.clone(), spans: ProtobufWriter::default() });
        }
        let place = place.unwrap_or(self.scopes.len() - 1);
        if let Some(known) = self.scopes.get_mut(place) {
            known.spans.message(2, |message| write_span(message, span));
            self.count += 1;
        }
    }

    /// Number of the spans.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the spans.
    pub(super) fn bytes(&self) -> usize {
        self.scopes.iter().map(|scope| scope.spans.as_bytes().len()).sum()
    }

    /// Returns the `ExportTraceServiceRequest`.
    pub(super) fn into_request(self, resource: &ResourceMessage) -> Vec<u8> {
        let mut request =
            ProtobufWriter::with_capacity(self.bytes() + resource.fields.len() + ENVELOPE_BYTES);
        request.message(1, |resource_spans| {
            resource_spans.bytes(1, &resource.fields);
            for ScopeSpans { scope, spans } in &self.scopes {
                resource_spans.message(2, |scope_spans| {
                    scope_spans.message(1, |message| write_scope(message, scope));
                    scope_spans.fields(spans.as_bytes());
                    scope_spans.text(3, scope.schema_url().unwrap_or_default());
                });
            }
            resource_spans.text(3, &resource.schema_url);
        });
        request.into_bytes()
    }
}

impl From<&Resource> for ResourceMessage {
    fn from(resource: &Resource) -> Self {
        let mut message = ProtobufWriter::default();
        for (key, value) in resource {
            message.message(1, |attribute| write_attribute(attribute, key.as_str(), value));
        }
        let schema_url = resource.schema_url().unwrap_or_default().to_owned();
        Self { fields: message.into_bytes(), schema_url }
    }
}

fn write_scope(message: &mut ProtobufWriter, scope: &InstrumentationScope) {
    message.text(1, scope.name());
    message.text(2, scope.version().unwrap_or_default());
    for attribute in scope.attributes() {
        message.message(3, |message| write_attribute(message, attribute.key.as_str(), &attribute.value));
    }
}

fn write_span(message: &mut ProtobufWriter, span: &SpanData) {
    write_context(message, &span.span_context);
    if span.parent_span_id != SpanId::INVALID {
        message.bytes(4, &span.parent_span_id.to_bytes());
    }
    message.text(5, &span.name);
    message.varint(6, kind_number(&span.span_kind));
    message.fixed64(7, nanoseconds(span.start_time));
    message.fixed64(8, nanoseconds(span.end_time));
    write_attributes(message, 9, &span.attributes);
    message.count(10, span.dropped_attributes_count);
    for event in &span.events.events {
        message.message(11, |message| write_event(message, event));
    }
    message.count(12, span.events.dropped_count);
    for link in &span.links.links {
        message.message(13, |message| write_link(message, link));
    }
    message.count(14, span.links.dropped_count);
    message.message(15, |message| write_status(message, &span.status));
    message.fixed32(16, flags(&span.span_context, span.parent_span_is_remote));
}

/// Writes the ids and the state of a span or a link, which have the same numbers in both.
fn write_context(message: &mut ProtobufWriter, context: &SpanContext) {
    message.bytes(1, &context.trace_id().to_bytes());
    message.bytes(2, &context.span_id().to_bytes());
    message.text(3, &context.trace_state().header());
}

fn write_event(message: &mut ProtobufWriter, event: &Event) {
    message.fixed64(1, nanoseconds(event.timestamp));
    message.text(2, &event.name);
    write_attributes(message, 3, &event.attributes);
    message.count(4, event.dropped_attributes_count);
}

fn write_link(message: &mut ProtobufWriter, link: &Link) {
    write_context(message, &link.span_context);
    write_attributes(message, 4, &link.attributes);
    message.count(5, link.dropped_attributes_count);
    message.fixed32(6, flags(&link.span_context, link.span_context.is_remote()));
}

fn write_status(message: &mut ProtobufWriter, status: &Status) {
    match status {
        Status::Unset => {}
        Status::Ok => message.varint(3, 1),
        Status::Error { description } => {
            message.text(2, description);
            message.varint(3, 2);
        }
    }
}

fn write_attributes(message: &mut ProtobufWriter, field: u32, attributes: &[KeyValue]) {
    for attribute in attributes {
        message.message(field, |message| write_attribute(message, attribute.key.as_str(), &attribute.value));
    }
}

fn write_attribute(message: &mut ProtobufWriter, key: &str, value: &Value) {
    message.text(1, key);
    message.message(2, |message| match value {
        Value::Bool(value) => write_bool(message, *value),
        Value::I64(value) => write_integer(message, *value),
        Value::F64(value) => write_float(message, *value),
        Value::String(value) => write_text(message, value.as_str()),
        Value::Array(array) => message.message(5, |values| write_array(values, array)),
        // The SDK has no further kinds.
        _ => {}
    });
}

fn write_array(values: &mut ProtobufWriter, array: &Array) {
    match array {
        Array::Bool(array) => write_values(values, array, |value, item| write_bool(value, *item)),
        Array::I64(array) => write_values(values, array, |value, item| write_integer(value, *item)),
        Array::F64(array) => write_values(values, array, |value, item| write_float(value, *item)),
        Array::String(array) => write_values(values, array, |value, item| write_text(value, item.as_str())),
        _ => {}
    }
}

fn write_values<T>(values: &mut ProtobufWriter, array: &[T], write: impl Fn(&mut ProtobufWriter, &T)) {
    for item in array {
        values.message(1, |value| write(value, item));
    }
}

fn write_text(value: &mut ProtobufWriter, text: &str) {
    value.bytes(1, text.as_bytes());
}

fn write_bool(value: &mut ProtobufWriter, item: bool) {
    value.varint(2, u64::from(item));
}

fn write_integer(value: &mut ProtobufWriter, item: i64) {
    value.varint(3, item.cast_unsigned());
}

fn write_float(value: &mut ProtobufWriter, item: f64) {
    value.fixed64(4, item.to_bits());
}

fn kind_number(kind: &SpanKind) -> u64 {
    match kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
        SpanKind::Producer => 4,
        SpanKind::Consumer => 5,
    }
}

fn flags(context: &SpanContext, is_remote: bool) -> u32 {
    let remote = if is_remote { IS_REMOTE } else { 0 };
    u32::from(context.trace_flags().to_u8()) | HAS_IS_REMOTE | remote
}

/// Returns nanoseconds since 1970.
fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::time::Duration;

    use opentelemetry::trace::{TraceFlags, TraceId, TraceState};
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
    use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
    use opentelemetry_sdk::trace::{SpanEvents, SpanLinks};
    use prost::Message as _;

    use super::*;

    /// Spans that differ in everything that a span may have, the same ones for the same seed.
    struct RandomSpans(fastrand::Rng);

    impl RandomSpans {
        fn few(&mut self) -> usize {
            self.0.usize(..4)
        }

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

        fn integer(&mut self) -> i64 {
            [0, 1, -1, i64::MIN, i64::MAX, self.0.i64(..)][self.0.usize(..6)]
        }

        fn float(&mut self) -> f64 {
            [0.0, -1.5, f64::INFINITY, f64::MIN_POSITIVE, self.0.f64()][self.0.usize(..5)]
        }

        fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
            (0..self.few()).map(|_| item(self)).collect()
        }

        fn value(&mut self) -> Value {
            match self.0.u8(..8) {
                0 => Value::Bool(self.0.bool()),
                1 => Value::I64(self.integer()),
                2 => Value::F64(self.float()),
                3 => Value::Array(Array::Bool(self.list(|random| random.0.bool()))),
                4 => Value::Array(Array::I64(self.list(Self::integer))),
                5 => Value::Array(Array::F64(self.list(Self::float))),
                6 => Value::Array(Array::String(self.list(|random| random.text().into()))),
                _ => Value::String(self.text().into()),
            }
        }

        fn attributes(&mut self) -> Vec<KeyValue> {
            self.list(|random| KeyValue::new(random.text(), random.value()))
        }

        fn context(&mut self) -> SpanContext {
            let states = ["", "vendor=1", "a=b,c=d"];
            let state: TraceState = states[self.0.usize(..3)].parse().unwrap();
            let (trace, span) = (TraceId::from(self.0.u128(..)), SpanId::from(self.0.u64(..)));
            SpanContext::new(trace, span, TraceFlags::new(self.0.u8(..)), self.0.bool(), state)
        }

        fn scope(&mut self) -> InstrumentationScope {
            match self.0.u8(..3) {
                0 => InstrumentationScope::builder("vmcp").build(),
                1 => InstrumentationScope::builder("vmcp").with_version("1").build(),
                _ => InstrumentationScope::builder("other")
                    .with_schema_url("https://schema.example/1")
                    .with_attributes([KeyValue::new("kind", "test")])
                    .build(),
            }
        }

        fn event(&mut self) -> Event {
            let (name, time, attributes) = (self.text(), self.time(), self.attributes());
            Event::new(name, time, attributes, self.number())
        }

        fn link(&mut self) -> Link {
            let (context, attributes) = (self.context(), self.attributes());
            Link::new(context, attributes, self.number())
        }

        fn span(&mut self) -> SpanData {
            let mut events = SpanEvents::default();
            events.events = self.list(Self::event);
            events.dropped_count = self.number();
            let mut links = SpanLinks::default();
            links.links = self.list(Self::link);
            links.dropped_count = self.number();
            let status = match self.0.u8(..3) {
                0 => Status::Unset,
                1 => Status::Ok,
                _ => Status::error(self.text()),
            };
            let kinds = [
                SpanKind::Client,
                SpanKind::Server,
                SpanKind::Producer,
                SpanKind::Consumer,
                SpanKind::Internal,
            ];
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
                instrumentation_scope: self.scope(),
            }
        }
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
            let spans: Vec<_> = (0..random.0.usize(..6)).map(|_| random.span()).collect();
            let resource = &resources[random.0.usize(..2)];
            let mut batch = SpanBatch::default();
            for span in &spans {
                batch.add(span);
            }
            assert_eq!(batch.count(), spans.len());
            let bytes = batch.into_request(&ResourceMessage::from(resource));
            let read = ExportTraceServiceRequest::decode(&*bytes).unwrap();
            let resource = ResourceAttributesWithSchema::from(resource);
            let resource_spans = group_spans_by_resource_and_scope(spans, &resource);
            assert_eq!(read, ExportTraceServiceRequest { resource_spans }, "seed {seed}");
        }
    }
}
