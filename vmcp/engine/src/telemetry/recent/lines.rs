//! The latest log lines, copied from standard error.

use std::fmt::{self, Write as _};
use std::sync::OnceLock;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{FilterExt as _, LevelFilter, filter_fn};
use tracing_subscriber::layer::{Context, Filter, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::RecentEntries;
use crate::telemetry::logs::{BACKENDS, levels};

/// Characters of a line that are kept.
const MAX_LINE_CHARS: usize = 2000;

/// One log line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecentLine {
    /// Time, RFC 3339.
    pub at: String,
    /// Level, in capital letters.
    pub level: String,
    /// Backend that the line is about.
    pub backend: Option<String>,
    /// Message and fields.
    pub text: String,
}

/// Returns the lines of this process. There is one log a process, so there is one memory of it.
pub fn lines() -> &'static RecentEntries<RecentLine> {
    static LINES: OnceLock<RecentEntries<RecentLine>> = OnceLock::new();
    LINES.get_or_init(RecentEntries::default)
}

/// Makes the layer that keeps the lines that [`filter`] lets through.
pub fn layer<S>() -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    Keep
}

/// Makes the filter of the layer: spans of backends at every level, and lines of vmcp's own from info on, or
/// as [`levels::change`] says. It filters this layer alone.
pub fn filter<S>() -> Box<dyn Filter<S> + Send + Sync>
where
    S: Subscriber,
{
    let is_kept = filter_fn(|metadata| metadata.is_event() || metadata.target().starts_with(BACKENDS));
    let spans = filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with(BACKENDS));
    match levels::adjustable::<S>("off,vmcp=info", false) {
        // A span lives longer than a level: if `warn` disabled it, lines after the change would lack its
        // backend.
        Some(levels) => Box::new(is_kept.and(spans.or(levels))),
        // Not reached: the directives are constant.
        None => Box::new(is_kept.and(LevelFilter::INFO)),
    }
}

struct Keep;

/// Name of the backend of a span.
struct OfBackend(String);

impl<S> Layer<S> for Keep
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some((span, backend)) = context.span(id).zip(fields.backend) {
            span.extensions_mut().insert(OfBackend(backend));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let scope = || context.event_scope(event).into_iter().flatten();
        let backend = fields
            .backend
            .or_else(|| scope().find_map(|span| span.extensions().get::<OfBackend>().map(|of| of.0.clone())));
        let mut text = fields.message + &fields.others;
        if let Some((end, _)) = text.char_indices().nth(MAX_LINE_CHARS) {
            text.truncate(end);
        }
        lines().push(RecentLine {
            at: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            level: event.metadata().level().to_string(),
            backend,
            text,
        });
    }
}

/// Message and fields of an event.
#[derive(Default)]
struct Fields {
    message: String,
    backend: Option<String>,
    others: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            "backend" => self.backend = Some(value.to_owned()),
            // Writing to a string cannot fail.
            name => drop(write!(self.others, " {name}={value}")),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
