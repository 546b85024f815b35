//! Log lines on standard error, as JSON or as text, each with the id of its trace.
//!
//! `levels` changes the level of modules at run time; `terminal_line` formats lines for a person.

pub mod levels;
mod terminal_line;

use std::fmt;
use std::io::IsTerminal as _;
use std::sync::OnceLock;

use tracing::{Event, Subscriber};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer, reload};
use vmcp_config::sanitize::escape_unseen;

use self::terminal_line::TerminalLine;
use super::TelemetryError;
use super::traces::{self, TraceSpan};

/// Target prefix of lines whose span names the backend.
pub(super) const BACKENDS: &str = "vmcp_backend";

/// Lines that wait for a reader of standard error; further ones are dropped and counted.
const MAX_WAITING_LINES: usize = 4096;
/// Target prefix of the library that reports file events. A log in a watched folder would otherwise feed
/// itself: each line is an event, and at level `trace` each event is a line.
const FILE_EVENTS: &str = "notify";

/// Counter of the lines that this process dropped.
static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// Format of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogStyle {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    /// One readable line per event.
    Text,
    /// One JSON object per line.
    Json,
}

/// Filter and format of the log.
#[derive(Debug, Clone, Default)]
pub struct LogSettings {
    /// A level or an `EnvFilter` directive list; `info` when empty.
    pub filter: String,
    /// Format of the lines.
    pub style: LogStyle,
}

/// True unless `NO_COLOR` is set.
fn takes_color() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Writes lines to standard error on a thread of its own, so that a reader that stalls stalls no request.
#[derive(Debug)]
pub struct LogThread {
    pub(super) writer: NonBlocking,
    /// Writes the waiting lines when dropped, for at most a second.
    _guard: WorkerGuard,
}

impl LogThread {
    /// Starts the thread. Standard output belongs to results and to the stdio transport.
    pub fn start() -> LogThread {
        let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(MAX_WAITING_LINES);
        let (writer, guard) = builder.thread_name("vmcp-log").finish(std::io::stderr());
        // Set already only if logs were started twice, which the subscriber refuses.
        let _ = DROPPED.set(writer.error_counter());
        LogThread { writer, _guard: guard }
    }
}

/// Returns the number of log lines that were dropped because standard error was not read.
pub fn dropped_lines() -> usize {
    DROPPED.get().map_or(0, ErrorCounter::dropped_lines)
}

/// Makes the layer that formats the lines and hands them to `writer`.
pub fn layer<S, W>(
    settings: &LogSettings,
    writer: W,
) -> Result<Box<dyn Layer<S> + Send + Sync>, TelemetryError>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let levels = filter::<S>(settings, true)?;
    // A span of a backend lives as long as its tasks, so no level may disable it: later lines would lack the
    // backend's name after the level is changed again.
    let spans = filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with(BACKENDS));
    let levels = spans.or(levels);
    // The only spans shown in lines are the backends'. All others, which libraries make, are disabled here,
    // before the lock of the levels.
    let filter = filter_fn(|metadata| {
        let target = metadata.target();
        (metadata.is_event() || target.starts_with(BACKENDS)) && !target.starts_with(FILE_EVENTS)
    });
    let filter = filter.and(levels);
    let terminal = std::io::stderr().is_terminal();
    let json = settings.style == LogStyle::Json || (settings.style == LogStyle::Auto && !terminal);
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    Ok(if json {
        let format = tracing_subscriber::fmt::format()
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false);
        lines.fmt_fields(JsonFields::new()).event_format(Traced(format)).with_filter(filter).boxed()
    } else {
        let format = TerminalLine { colored: terminal && takes_color() };
        lines.with_ansi(false).event_format(format).with_filter(filter).boxed()
    })
}

/// Returns the filter of lines by level and target, which later changes of the levels reach. `is_reported`:
/// people read its directives as the ones of the start.
pub(super) fn filter<S: Subscriber>(
    settings: &LogSettings,
    is_reported: bool,
) -> Result<reload::Layer<EnvFilter, S>, TelemetryError> {
    let directives = if settings.filter.is_empty() { "info" } else { &settings.filter };
    levels::adjustable(directives, is_reported).ok_or_else(|| TelemetryError::Filter(settings.filter.clone()))
}

/// Returns the trace id of the current span, as 32 hex digits, when traces are exported.
fn trace_id() -> Option<String> {
    traces::ids(&TraceSpan::current()).map(|ids| hex::encode(ids.trace))
}

/// A format that adds the trace id to the lines of JSON of another format, and mends what a person could
/// misread.
struct Traced<F>(F);

impl<S, N, F> FormatEvent<S, N> for Traced<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        write_json(&mut writer, &escape_unseen(line), trace_id().as_deref())
    }
}

/// Writes a line of JSON, with the id of its trace if it has one.
fn write_json(writer: &mut Writer<'_>, line: &str, id: Option<&str>) -> fmt::Result {
    match (line.strip_prefix('{'), id) {
        (Some(rest), Some(id)) => write!(writer, "{{\"trace_id\":\"{id}\",{rest}"),
        _ => writer.write_str(line),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing_subscriber::layer::SubscriberExt as _;
    use vmcp_config::sanitize::is_unseen;

    /// Keeps the text of log lines.
    #[derive(Clone, Default)]
    pub(in crate::telemetry) struct Lines(pub(in crate::telemetry) Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(style: LogStyle) -> String {
        let lines = Lines::default();
        let to = lines.clone();
        let settings = LogSettings { style, ..LogSettings::default() };
        let layer = layer(&settings, move || to.clone()).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!(line = "txt\u{202e}gpj.exe\u{2028}", "said \u{2066}hello\u{1b}[2J");
        });
        String::from_utf8(lines.0.lock().clone()).unwrap()
    }

    #[test]
    fn a_line_of_a_level_above_that_of_spans_names_its_backend() {
        let lines = Lines::default();
        let to = lines.clone();
        let settings = LogSettings { filter: "warn".to_owned(), style: LogStyle::Json };
        let layer = layer(&settings, move || to.clone()).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let span = tracing::info_span!(target: "vmcp_backend", "backend", backend = "jira");
            span.in_scope(|| tracing::warn!("said hello"));
        });
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        assert!(text.contains(r#""backend":"jira""#), "{text}");
    }

    #[test]
    fn text_of_backends_does_not_reorder_a_line() {
        for style in [LogStyle::Text, LogStyle::Json] {
            let text = logged(style);
            assert!(text.contains("said \\u2066hello") && text.ends_with('\n'), "{text:?}");
            assert!(!text.trim_end().contains(|c: char| is_unseen(c) || c.is_control()), "{text:?}");
        }
    }
}
