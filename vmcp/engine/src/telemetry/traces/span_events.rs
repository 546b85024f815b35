//! [`SpanEvents`]: log lines inside an exported span as events of it.
//!
//! Keeps the attributes, the names of events and the rule of errors of `tracing-opentelemetry`.

use std::borrow::Cow;
use std::fmt;
use std::time::SystemTime;

use opentelemetry::trace::Status;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::protobuf::ProtobufWriter;
use super::span_message::{AttributeValue, nanoseconds, write_attribute};
use super::trace_span::{SpanExporter, TraceSpan};

/// Adds lines to the span that their thread is in. Where no exporter serves the process, spans find theirs by
/// this layer of the subscriber.
#[derive(Debug, Clone)]
pub(super) struct SpanEvents {
    pub(super) exporter: SpanExporter,
}

impl<S: Subscriber> Layer<S> for SpanEvents {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let span = TraceSpan::current();
        if span.read_mut(|open| open.is_recorded()) != Some(true) {
            return;
        }
        let metadata = event.metadata();
        // Read first: a value may log when it is formatted, which takes the lock of the span.
        let mut fields = EventFields { message: ProtobufWriter::default(), name: Cow::Borrowed("") };
        fields.message.fixed64(1, nanoseconds(SystemTime::now()));
        fields.attribute("level", AttributeValue::Text(metadata.level().as_str()));
        fields.attribute("target", AttributeValue::Text(metadata.target()));
        event.record(&mut fields);
        let name = if fields.name.is_empty() { metadata.name() } else { &*fields.name };
        fields.message.text(2, name);
        span.fill(|open| {
            open.event(&fields.message);
            if *metadata.level() == Level::ERROR {
                open.set_status(Status::error(""));
            }
        });
    }
}

/// Reads the fields of a line.
struct EventFields {
    /// Time and attributes.
    message: ProtobufWriter,
    name: Cow<'static, str>,
}

impl EventFields {
    fn attribute(&mut self, key: &str, value: AttributeValue<'_>) {
        self.message.message(3, |attribute| write_attribute(attribute, key, value));
    }

    fn record(&mut self, field: &Field, value: AttributeValue<'_>) {
        // Fields of the `log` crate repeat the level and the target.
        if !field.name().starts_with("log.") {
            self.attribute(field.name(), value);
        }
    }
}

impl Visit for EventFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.name = Cow::Owned(value.to_owned());
        } else {
            self.record(field, AttributeValue::Text(value));
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.record(field, AttributeValue::Bool(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record(field, AttributeValue::Integer(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.record(field, AttributeValue::Float(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
