//! Messages of OTLP around spans that are encoded already: [`SpanBatch`] and [`ResourceMessage`].
//!
//! Source: opentelemetry/proto/trace/v1/trace.proto, whose numbers of fields these are.

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry::Value;
use opentelemetry_sdk::Resource;

use super::open_span::OpenSpan;
use super::protobuf::ProtobufWriter;

/// Name of the instrumentation scope of all spans.
const SCOPE: &str = "vmcp";
/// Most bytes of the key and the length of a message.
const ENVELOPE_BYTES: usize = 20;

/// Spans that leave in one request, as they end.
#[derive(Debug, Default)]
pub(super) struct SpanBatch {
    /// The spans, as fields of the message of their scope.
    spans: ProtobufWriter,
    count: usize,
}

/// The resource of all spans, encoded once.
#[derive(Debug, Default)]
pub(super) struct ResourceMessage {
    fields: Vec<u8>,
    schema_url: String,
}

/// Value of an attribute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum AttributeValue<'a> {
    Text(&'a str),
    Bool(bool),
    Integer(i64),
    Float(f64),
}

impl SpanBatch {
    /// Adds a span that ends at `end`.
    pub(super) fn add(&mut self, span: &OpenSpan, end: SystemTime) {
        self.spans.message(2, |message| span.write(message, end));
        self.count += 1;
    }

    /// Number of the spans.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the spans.
    pub(super) fn bytes(&self) -> usize {
        self.spans.as_bytes().len()
    }

    /// Returns the `ExportTraceServiceRequest`. The spans are copied once: all lengths are known before.
    pub(super) fn to_request(&self, resource: &ResourceMessage) -> Vec<u8> {
        let spans = self.spans.as_bytes();
        let mut scope = ProtobufWriter::default();
        scope.message(1, |scope| scope.text(1, SCOPE));
        let mut head = ProtobufWriter::default();
        head.bytes(1, &resource.fields);
        head.begin_message(2, scope.as_bytes().len() + spans.len());
        head.fields(scope.as_bytes());
        let mut tail = ProtobufWriter::default();
        tail.text(3, &resource.schema_url);
        let parts = [head.as_bytes(), spans, tail.as_bytes()];
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        let mut request = ProtobufWriter::with_capacity(length + ENVELOPE_BYTES);
        request.begin_message(1, length);
        for part in parts {
            request.fields(part);
        }
        request.into_bytes()
    }

    /// Returns an empty batch with the memory of this one.
    pub(super) fn cleared(self) -> Self {
        Self { spans: self.spans.cleared(), count: 0 }
    }
}

impl From<&Resource> for ResourceMessage {
    /// Encodes a resource. Lists among its attributes, which no configuration can have, are left out.
    fn from(resource: &Resource) -> Self {
        let mut message = ProtobufWriter::default();
        for (key, value) in resource {
            if let Some(value) = AttributeValue::of(value) {
                message.message(1, |attribute| write_attribute(attribute, key.as_str(), value));
            }
        }
        let schema_url = resource.schema_url().unwrap_or_default().to_owned();
        Self { fields: message.into_bytes(), schema_url }
    }
}

impl<'a> AttributeValue<'a> {
    /// Returns a value of the SDK; `None` for a list.
    pub(super) fn of(value: &'a Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(text.as_str())),
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::I64(value) => Some(Self::Integer(*value)),
            Value::F64(value) => Some(Self::Float(*value)),
            _ => None,
        }
    }
}

/// Writes a `KeyValue`.
pub(super) fn write_attribute(message: &mut ProtobufWriter, key: &str, value: AttributeValue<'_>) {
    message.text(1, key);
    message.message(2, |message| match value {
        AttributeValue::Text(text) => message.bytes(1, text.as_bytes()),
        AttributeValue::Bool(value) => message.varint(2, u64::from(value)),
        AttributeValue::Integer(value) => message.varint(3, value.cast_unsigned()),
        AttributeValue::Float(value) => message.fixed64(4, value.to_bits()),
    });
}

/// Returns nanoseconds since 1970.
pub(super) fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
