//! Messages of OTLP around spans that are encoded already: [`SpanBatch`] and [`ResourceMessage`].
//!
//! Source: opentelemetry/proto/trace/v1/trace.proto, whose numbers of fields these are.

use std::mem;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use opentelemetry::Value;
use opentelemetry_sdk::Resource;

use super::protobuf::ProtobufWriter;

/// Name of the instrumentation scope of all spans.
const SCOPE: &str = "vmcp";
/// Most bytes of the keys and lengths before the spans: five pairs of at most eleven bytes.
const KEY_BYTES: usize = 64;
/// Bytes of the spans of one request: 512 KiB, an eighth of the usual limit of a collector. The span that
/// passes it is the last one. A request costs some 200 µs beside its bytes, so a small one costs each of its
/// spans more.
pub(super) const BATCH_BYTES: usize = 512 << 10;

/// Spans that leave in one request, as they end. The request is made in place: its begin, whose length is
/// known at the end, has room before the spans.
#[derive(Debug)]
pub(super) struct SpanBatch {
    /// The room, then the spans as fields of the message of their scope.
    message: ProtobufWriter,
    room: usize,
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
    /// Begins a batch in `memory`, with `room` bytes before its spans.
    pub(super) fn within(mut memory: Vec<u8>, room: usize) -> Self {
        memory.clear();
        memory.resize(room, 0);
        Self { message: ProtobufWriter::within(memory), room, count: 0 }
    }

    /// Adds a span, which is encoded.
    pub(super) fn add(&mut self, span: &[u8]) {
        self.message.bytes(2, span);
        self.count += 1;
    }

    /// Moves the spans of another batch behind those of this one.
    pub(super) fn append(&mut self, other: &mut Self) {
        self.message.fields(other.message.as_bytes().get(other.room..).unwrap_or_default());
        self.count += other.count;
        *other = Self::within(mem::take(&mut other.message).into_bytes(), other.room);
    }

    /// True if no further span fits.
    pub(super) fn is_full(&self) -> bool {
        self.bytes() >= BATCH_BYTES
    }

    /// Frees the memory of an empty batch.
    pub(super) fn free(&mut self) {
        *self = Self::within(Vec::new(), self.room);
    }

    /// Number of the spans.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the spans.
    pub(super) fn bytes(&self) -> usize {
        self.message.as_bytes().len() - self.room
    }

    /// Returns the `ExportTraceServiceRequest`.
    pub(super) fn into_request(self, resource: &ResourceMessage) -> Bytes {
        let spans = self.bytes();
        let Self { mut message, room, .. } = self;
        let mut scope = ProtobufWriter::default();
        scope.message(1, |scope| scope.text(1, SCOPE));
        let mut of_resource = ProtobufWriter::default();
        of_resource.bytes(1, &resource.fields);
        of_resource.begin_message(2, scope.as_bytes().len() + spans);
        of_resource.fields(scope.as_bytes());
        message.text(3, &resource.schema_url);
        let mut bytes = message.into_bytes();
        let mut head = ProtobufWriter::default();
        head.begin_message(1, of_resource.as_bytes().len() + bytes.len() - room);
        head.fields(of_resource.as_bytes());
        let head = head.as_bytes();
        let begin = room.saturating_sub(head.len());
        if let Some(place) = bytes.get_mut(begin..room).filter(|place| place.len() == head.len()) {
            place.copy_from_slice(head);
            return Bytes::from(bytes).slice(begin..);
        }
        // The room was too small.
        [head, bytes.get(room..).unwrap_or_default()].concat().into()
    }
}

impl ResourceMessage {
    /// Most bytes of a request before its spans.
    pub(super) fn room(&self) -> usize {
        self.fields.len() + SCOPE.len() + KEY_BYTES
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
