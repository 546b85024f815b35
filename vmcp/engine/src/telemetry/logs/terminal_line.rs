//! [`TerminalLine`]: the format of log lines for a person at a terminal.
//!
//! A line begins with the time of day (UTC), the level and the backend in columns, then has the message and
//! its fields. Further lines of a message are indented, so that no text of a backend looks like a line of its
//! own.

use std::fmt::{self, Write as _};
use std::time::SystemTime;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;
use vmcp_config::sanitize::escape_unseen;

use super::trace_id;

/// Characters of the column with the backend's name; a longer name moves the message.
const NAME_WIDTH: usize = 12;
/// Indentation of a message's further lines: the width of time, level and name.
const INDENTATION: &str = "                                ";
/// Characters of an RFC 3339 time that are shown: hours, minutes, seconds, milliseconds.
const CLOCK: std::ops::Range<usize> = 11..23;
/// Name of the process where a line is about no backend.
const OWN_NAME: &str = "vmcp";

const DIM: &str = "\u{1b}[2m";
const BOLD: &str = "\u{1b}[1m";
const RESET: &str = "\u{1b}[0m";

/// Format of one aligned line per event.
pub(super) struct TerminalLine {
    /// True to color levels and to dim what is read second.
    pub(super) colored: bool,
}

impl<S, N> FormatEvent<S, N> for TerminalLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut parts = LineParts::default();
        event.record(&mut parts);
        let spans = context.event_scope().into_iter().flatten();
        let mut of_span = spans.filter_map(|span| {
            let extensions = span.extensions();
            let fields = &extensions.get::<FormattedFields<N>>()?.fields;
            Some(fields.strip_prefix("backend=")?.trim_matches('"').to_owned())
        });
        if parts.backend.is_none() {
            parts.backend = of_span.next();
        }
        if let Some(id) = trace_id() {
            parts.field("trace_id", &id);
        }
        let now = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let level = *event.metadata().level();
        writer.write_str(&parts.line(now.get(CLOCK).unwrap_or(&now), level, self.colored))
    }
}

/// Message and fields of an event.
#[derive(Default)]
struct LineParts {
    message: String,
    backend: Option<String>,
    fields: String,
}

impl LineParts {
    fn field(&mut self, name: &str, value: &str) {
        let quotes = if value.is_empty() || value.contains(' ') { "\"" } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(self.fields, "  {name}={quotes}{value}{quotes}");
    }

    fn line(&self, clock: &str, level: Level, colored: bool) -> String {
        let paint = |sequence: &str, text: &str| match (colored, text.is_empty()) {
            (true, false) => format!("{sequence}{text}{RESET}"),
            _ => text.to_owned(),
        };
        let color = match level {
            Level::ERROR => "\u{1b}[31m",
            Level::WARN => "\u{1b}[33m",
            Level::INFO => "\u{1b}[32m",
            _ => DIM,
        };
        let name = harmless(self.backend.as_deref().unwrap_or(OWN_NAME));
        let name = paint(if self.backend.is_some() { BOLD } else { DIM }, &format!("{name:NAME_WIDTH$}"));
        let fields = harmless(&self.fields);
        format!(
            "{} {} {name} {}{}\n",
            paint(DIM, clock),
            paint(color, &format!("{:5}", level.as_str())),
            harmless(&self.message),
            paint(DIM, &fields)
        )
    }
}

/// Writes control characters and unseen characters as escapes, and indents further lines.
fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.trim_end().chars() {
        match c {
            '\n' => {
                shown.push('\n');
                shown.push_str(INDENTATION);
            }
            '\t' => shown.push(' '),
            c if c.is_ascii_control() => {
                let _ = write!(shown, "\\u{:04x}", u32::from(c));
            }
            c => shown.push(c),
        }
    }
    escape_unseen(shown)
}

impl Visit for LineParts {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            "backend" => self.backend = Some(value.to_owned()),
            name => self.field(name, value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(backend: Option<&str>, message: &str) -> LineParts {
        let mut parts = LineParts {
            message: message.to_owned(),
            backend: backend.map(str::to_owned),
            ..LineParts::default()
        };
        parts.field("transport", "stdio");
        parts.field("error", "no such file");
        parts
    }

    #[test]
    fn lines_are_aligned_whatever_their_level_and_backend() {
        let up = parts(Some("github"), "backend is up").line("08:00:00.123", Level::INFO, false);
        let expected =
            "08:00:00.123 INFO  github       backend is up  transport=stdio  error=\"no such file\"\n";
        assert_eq!(up, expected);
        let own = parts(None, "backend is up").line("08:00:00.123", Level::ERROR, false);
        assert_eq!(own.find("backend is up"), up.find("backend is up"));
        let colored = parts(None, "x").line("08:00:00.123", Level::ERROR, true);
        assert!(colored.contains("\u{1b}[31mERROR\u{1b}[0m"), "{colored:?}");
    }

    #[test]
    fn text_of_a_backend_begins_no_line_and_colors_nothing() {
        let forged = "x\n08:00:00.124 ERROR vmcp forged\u{1b}[2J\u{202e}";
        let line = parts(Some("b"), forged).line("08:00:00.123", Level::INFO, false);
        let lines: Vec<_> = line.lines().collect();
        assert_eq!(lines.len(), 2, "{line}");
        assert!(lines[1].starts_with(INDENTATION) && lines[1].contains("forged\\u001b[2J\\u202e"), "{line}");
        let in_a_name = parts(Some("a\n\u{1b}[31m"), "x").line("08:00:00.123", Level::INFO, false);
        assert!(!in_a_name.contains('\u{1b}'), "{in_a_name:?}");
    }
}
