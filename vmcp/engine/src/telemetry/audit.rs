//! Audit events: one JSON line for each call and each client that is turned away, in a file or on standard
//! output, and OTLP log records. Calls wait for none of it: lines go through a bounded queue to a thread, and
//! a full queue drops them, counted.
//!
//! | room | holds |
//! |---|---|
//! | `event` | an event as JSON |
//! | `sink` | the queue, its thread and its target |
//! | `otlp_logs` | log records for a collector, and their queue |
//! | `rotating_file` | a file that is renamed when it is full |

mod event;
mod otlp_logs;
mod rotating_file;
mod sink;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwapOption;
use vmcp_config::Audit;

use self::event::EventContext;
use self::otlp_logs::{EventTrace, OtlpLogs};
use self::sink::AuditSink;
pub use self::sink::ConsoleStream;
use super::TelemetryError;
use super::calls::{CallObserver, CallRecord, Refusal};
use super::metrics::Metrics;

/// Writes audit events, by the configuration in force.
#[derive(Debug)]
pub struct AuditTrail {
    console: ConsoleStream,
    metrics: Arc<Metrics>,
    running: ArcSwapOption<Running>,
    /// Most bytes of arguments that an event takes; 0: none.
    argument_bytes: AtomicUsize,
}

/// Settings in force and their sinks.
#[derive(Debug)]
struct Running {
    settings: Audit,
    sink: Option<AuditSink>,
    logs: Option<OtlpLogs>,
}

impl AuditTrail {
    /// Prepares the trail; nothing is written before [`Self::apply`]. `console` gets the events if no file is
    /// configured.
    pub fn new(console: ConsoleStream, metrics: Arc<Metrics>) -> AuditTrail {
        AuditTrail { console, metrics, running: ArcSwapOption::empty(), argument_bytes: AtomicUsize::new(0) }
    }

    /// Puts settings in force; `None` ends the trail. Blocks for at most a second, while the events before
    /// are written.
    pub fn apply(&self, settings: Option<&Audit>) {
        let before = self.running.load_full();
        if before.as_ref().map(|running| &running.settings) == settings {
            return;
        }
        let argument_bytes = settings.and_then(|settings| settings.argument_bytes).unwrap_or(0);
        self.argument_bytes.store(argument_bytes, Ordering::Relaxed);
        self.running.store(settings.map(|settings| Arc::new(self.start(settings))));
    }

    fn start(&self, settings: &Audit) -> Running {
        let failed = |error: &TelemetryError| tracing::error!(%error, "audit events are not exported");
        let logs = settings.otlp.as_ref().map(|target| OtlpLogs::start(target, &self.metrics));
        let logs = logs.and_then(|started| started.inspect_err(failed).ok());
        // The console is for servers without another target.
        let sink = (settings.log_file.is_some() || logs.is_none())
            .then(|| AuditSink::start(settings, self.console, &self.metrics));
        Running { settings: settings.clone(), sink, logs }
    }

    fn write(
        &self,
        kind: &'static str,
        trace: impl FnOnce() -> EventTrace,
        line: impl FnOnce(&EventContext<'_>) -> serde_json::Result<Vec<u8>>,
    ) {
        let running = self.running.load();
        let Some(running) = running.as_ref() else { return };
        if !running.settings.event_types.contains(&kind) {
            return;
        }
        let context = EventContext { kind, component: &running.settings.component };
        match line(&context) {
            Ok(line) => {
                if let Some(logs) = &running.logs {
                    logs.write(kind, &line, trace());
                }
                if let Some(sink) = &running.sink {
                    sink.write(line);
                }
            }
            Err(error) => tracing::error!(%error, "an audit event could not be encoded"),
        }
    }
}

impl CallObserver for AuditTrail {
    fn observe(&self, record: &CallRecord) {
        let trace = || EventTrace::of(record.trace, &record.span);
        self.write(event::kind_of(&record.method), trace, |context| event::of_call(context, record));
    }

    fn refused(&self, refusal: &Refusal<'_>) {
        let kind = refusal.method.map_or("http_request", event::kind_of);
        let trace = || EventTrace::without_span(refusal.trace);
        self.write(kind, trace, |context| event::of_refusal(context, refusal));
    }

    fn argument_bytes(&self) -> usize {
        self.argument_bytes.load(Ordering::Relaxed)
    }
}
