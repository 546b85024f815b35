//! [`OpenSpan`]: a span under way, whose attributes, events and links are encoded as they come.
//!
//! Source: opentelemetry/proto/trace/v1/trace.proto, whose numbers of fields these are. The SDK keeps each
//! attribute as a value of its own, with an allocation, until an exporter converts, encodes and frees it.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt::Display;
use std::mem;
use std::time::SystemTime;

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use vmcp_json::decimal::Decimal;

use super::protobuf::ProtobufWriter;
use super::span_message::{AttributeValue, nanoseconds, write_attribute};

/// Most attributes, events and links of a span, each; further ones are counted. These are the SDK's limits.
const MAX_OF_EACH: u32 = 128;
/// Bytes that most spans need.
const USUAL_BYTES: usize = 512;
/// Most bytes that stay for the next span of a thread; those of a larger span are freed.
const MAX_KEPT_BYTES: usize = 2_048;
/// Key of the id that a request has on its connection.
const REQUEST_ID: &str = "jsonrpc.request.id";
/// Flags of a span or link beside those of W3C: the other context is known to be local or remote, and it is
/// remote.
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// Share of the traces without a sampled parent that are exported: those whose ids end in a number below a
/// bound, so that all servers of a trace decide alike.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sampling {
    /// Bound of the last 64 bits of an id without the lowest bit.
    below: u64,
}

impl Sampling {
    /// Samples this share, from 0 to 1.
    pub(super) fn new(share: f64) -> Self {
        Self { below: (share.clamp(0.0, 1.0) * 2_f64.powi(63)) as u64 }
    }

    fn takes(self, trace: u128) -> bool {
        (trace as u64) >> 1 < self.below
    }
}

/// A span under way.
#[derive(Debug)]
pub struct OpenSpan {
    context: SpanContext,
    parent: SpanId,
    parent_is_remote: bool,
    /// False for a span that is not exported: its attributes, events and links are dropped.
    is_recorded: bool,
    /// True for the span of a call, which takes the call's outcome.
    is_call: bool,
    /// Id of the newest request to a backend, which a retry replaces.
    request_id: Option<u64>,
    /// The name, until another one is among the fields.
    name: &'static str,
    kind: SpanKind,
    status: Status,
    start: SystemTime,
    /// The fields of the message so far: attributes, events, links, and a name that was set later.
    fields: ProtobufWriter,
    attributes: Count,
    events: Count,
    links: Count,
}

/// Kept and dropped things of a kind.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    kept: u32,
    dropped: u32,
}

impl Count {
    /// Counts one more; returns false if it is to be dropped.
    fn admit(&mut self) -> bool {
        let fits = self.kept < MAX_OF_EACH;
        if fits {
            self.kept += 1;
        } else {
            self.dropped += 1;
        }
        fits
    }
}

impl OpenSpan {
    /// Begins a span now: below `parent`, which decides about its export, or as the first one of a trace. It
    /// grows in `memory`, which is empty.
    pub(super) fn begin(
        mut memory: ProtobufWriter,
        name: &'static str,
        parent: Option<&SpanContext>,
        sampling: Sampling,
    ) -> Self {
        // A range would take a division.
        let id = SpanId::from(fastrand::u64(..).max(1));
        let context = if let Some(parent) = parent {
            below(parent, id)
        } else {
            let trace = fastrand::u128(..).max(1);
            let flags = if sampling.takes(trace) { TraceFlags::SAMPLED } else { TraceFlags::default() };
            SpanContext::new(TraceId::from(trace), id, flags, false, TraceState::default())
        };
        let is_recorded = context.is_sampled();
        if is_recorded {
            memory.reserve(USUAL_BYTES);
        }
        Self {
            context,
            parent: parent.map_or(SpanId::INVALID, SpanContext::span_id),
            parent_is_remote: parent.is_some_and(SpanContext::is_remote),
            is_recorded,
            is_call: false,
            request_id: None,
            name,
            kind: SpanKind::Internal,
            status: Status::Unset,
            start: SystemTime::now(),
            fields: memory,
            attributes: Count::default(),
            events: Count::default(),
            links: Count::default(),
        }
    }

    /// Records the span in any case: the trace that it continues comes later, and may be sampled.
    pub(super) fn undecided(self) -> Self {
        Self { is_recorded: true, ..self }
    }

    /// The ids of the span.
    pub(super) fn context(&self) -> &SpanContext {
        &self.context
    }

    /// True if the span is kept.
    pub(super) fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// Puts the span below the span of another process, before it has spans below itself.
    pub(super) fn continue_trace(&mut self, parent: &SpanContext) {
        if parent.is_valid() {
            self.context = below(parent, self.context.span_id());
            self.parent = parent.span_id();
            self.parent_is_remote = parent.is_remote();
            self.is_recorded = parent.is_sampled();
        }
    }

    /// Replaces the name by the words of `parts`, one after the other.
    pub fn rename(&mut self, parts: &[&str]) {
        if self.is_recorded {
            // A reader takes the last one.
            self.fields.parts(5, parts);
            self.name = "";
        }
    }

    /// Makes the span one of kind SERVER.
    pub fn server(&mut self) {
        self.kind = SpanKind::Server;
    }

    /// Makes the span one of kind CLIENT.
    pub fn client(&mut self) {
        self.kind = SpanKind::Client;
    }

    /// Makes the span one of a call: it takes the outcome of the call's record.
    pub fn call(&mut self) {
        self.is_call = true;
    }

    /// Adds an attribute of text.
    pub fn text(&mut self, key: &'static str, value: &str) {
        self.attribute(key, AttributeValue::Text(value));
    }

    /// Adds an attribute of text, if there is a value.
    pub fn optional(&mut self, key: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(key, value);
        }
    }

    /// Adds an attribute of the text that shows a value, if there is one.
    pub fn shown(&mut self, key: &'static str, value: Option<&impl Display>) {
        if let Some(value) = value
            && self.admits_attribute()
        {
            self.fields.message(9, |attribute| {
                attribute.text(1, key);
                attribute.message(2, |text| text.shown(1, value));
            });
        }
    }

    /// Adds a number.
    pub fn number(&mut self, key: &'static str, value: usize) {
        self.attribute(key, AttributeValue::Integer(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    /// Marks the span as failed, for the reason that `description` tells; it may be empty.
    pub fn fail(&mut self, description: impl Into<Cow<'static, str>>) {
        self.set_status(Status::error(description));
    }

    /// Marks the span as successful.
    pub fn succeed(&mut self) {
        self.set_status(Status::Ok);
    }

    /// True for the span of a call.
    pub(in crate::telemetry) fn is_call(&self) -> bool {
        self.is_call
    }

    /// Notes the id of a request to a backend. A span of kind CLIENT is one of a request and takes it.
    pub(super) fn note_request_id(&mut self, id: u64) {
        if self.kind == SpanKind::Client {
            self.request_id = Some(id);
        }
    }

    /// Sets the status: success outweighs an error, and the first words about an error stay.
    pub(super) fn set_status(&mut self, status: Status) {
        let is_kept = match (&self.status, &status) {
            (_, Status::Unset) | (Status::Ok, _) => true,
            (Status::Error { description }, Status::Error { .. }) => !description.is_empty(),
            (Status::Unset, _) | (Status::Error { .. }, Status::Ok) => false,
        };
        if !is_kept {
            self.status = status;
        }
    }

    /// Adds an attribute.
    pub(super) fn attribute(&mut self, key: &str, value: AttributeValue<'_>) {
        if !self.admits_attribute() {
            return;
        }
        match value {
            AttributeValue::Text(text) => self.fields.text_pair(9, key, text),
            value => self.fields.message(9, |attribute| write_attribute(attribute, key, value)),
        }
    }

    /// Counts one more attribute; returns false if it is to be dropped.
    fn admits_attribute(&mut self) -> bool {
        self.is_recorded && self.attributes.admit()
    }

    /// Adds an event, which is encoded.
    pub(super) fn event(&mut self, event: &ProtobufWriter) {
        if self.is_recorded && self.events.admit() {
            self.fields.bytes(11, event.as_bytes());
        }
    }

    /// Links the span to another one.
    pub(super) fn link(&mut self, other: &SpanContext) {
        if self.is_recorded && other.is_valid() && self.links.admit() {
            self.fields.message(13, |link| {
                write_context(link, other);
                link.fixed32(6, flags(other, other.is_remote()));
            });
        }
    }

    /// Ends the span at `end` and returns its message; once.
    pub(super) fn encode(&mut self, end: SystemTime) -> &[u8] {
        let is_recorded = self.is_recorded;
        let Self { context, fields, .. } = self;
        write_context(fields, context);
        if self.parent != SpanId::INVALID {
            fields.bytes(4, &self.parent.to_bytes());
        }
        fields.text(5, self.name);
        fields.varint(6, kind_number(&self.kind));
        fields.fixed64(7, nanoseconds(self.start));
        fields.fixed64(8, nanoseconds(end));
        if let Some(id) = self.request_id.filter(|_| is_recorded) {
            fields.text_pair(9, REQUEST_ID, Decimal::new(id).as_str());
        }
        fields.count(10, self.attributes.dropped);
        fields.count(12, self.events.dropped);
        fields.count(14, self.links.dropped);
        fields.message(15, |message| write_status(message, &self.status));
        fields.fixed32(16, flags(context, self.parent_is_remote));
        fields.as_bytes()
    }

    /// Frees the texts of clients. The span has ended, and waits for the next one in its place.
    pub(super) fn clear(&mut self) {
        self.context = SpanContext::NONE;
        self.status = Status::Unset;
        self.fields.clear(MAX_KEPT_BYTES);
    }

    /// Takes the memory of a span that was [cleared](Self::clear).
    pub(super) fn take_memory(&mut self) -> ProtobufWriter {
        mem::take(&mut self.fields)
    }
}

/// Returns the context of a span below `parent`.
fn below(parent: &SpanContext, id: SpanId) -> SpanContext {
    let flags = if parent.is_sampled() { TraceFlags::SAMPLED } else { TraceFlags::default() };
    SpanContext::new(parent.trace_id(), id, flags, false, parent.trace_state().clone())
}

/// Writes the ids and the state of a span or a link, which have the same numbers in both.
fn write_context(message: &mut ProtobufWriter, context: &SpanContext) {
    message.bytes(1, &context.trace_id().to_bytes());
    message.bytes(2, &context.span_id().to_bytes());
    if *context.trace_state() != TraceState::NONE {
        message.text(3, &context.trace_state().header());
    }
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
