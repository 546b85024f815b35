//! [`OtlpLogs`]: sends audit events to the collector of `telemetry.endpoint`, as OTLP log records.
//!
//! The batch processor of the SDK has a queue and a thread of its own; what it drops, and what the collector
//! does not take, is counted here.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opentelemetry::logs::{AnyValue, LogRecord as _, Logger as _, LoggerProvider as _, Severity};
use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_otlp::{Protocol, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{
    BatchConfigBuilder, BatchLogProcessor, LogBatch, LogExporter, SdkLogger, SdkLoggerProvider,
};
use vmcp_config::OtlpTarget;

use crate::metrics::Metrics;
use crate::telemetry::TelemetryError;
use crate::telemetry::otlp::waiting_records::{MAX_WAITING_RECORDS, WaitingRecords, size_of};
use crate::telemetry::otlp::{self, OtlpClient};
use crate::telemetry::traces::{self, TraceSpan};

/// Bytes of events that wait for the collector, 32 MiB; an event beyond is dropped and counted. Usual events
/// reach [`MAX_WAITING_RECORDS`] first; an event with arguments may have a megabyte.
const MAX_WAITING_BYTES: usize = 32 << 20;
/// Events of one request.
const BATCH: usize = 512;
/// Longest time between an event and its export.
const DELAY: Duration = Duration::from_secs(1);
/// Time that a sink that ends has to send the events that wait.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The trace and span in which an event happened.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EventTrace {
    // Bytes, and not the ids of the SDK: those are words, and double the size of an event in the queue.
    trace: Option<[u8; 16]>,
    span: Option<[u8; 8]>,
}

impl EventTrace {
    /// The trace of a call; the span, its own or else the present one, is known where spans are exported.
    pub(super) fn of(trace: Option<[u8; 16]>, span: &TraceSpan) -> EventTrace {
        let within = traces::ids(span).or_else(|| traces::ids(&TraceSpan::current()));
        EventTrace { trace, span: within.map(|ids| ids.span) }
    }

    /// The trace of a request without a span.
    pub(super) fn without_span(trace: Option<[u8; 16]>) -> EventTrace {
        EventTrace { trace, span: None }
    }
}

/// Takes events, and never blocks. Dropped, it waits for at most [`FLUSH_TIMEOUT`] until those that wait are
/// sent.
#[derive(Debug)]
pub(super) struct OtlpLogs {
    provider: SdkLoggerProvider,
    logger: SdkLogger,
    waiting: Arc<WaitingRecords>,
    metrics: Arc<Metrics>,
}

impl OtlpLogs {
    /// Connects lazily.
    pub(super) fn start(target: &OtlpTarget, metrics: &Arc<Metrics>) -> Result<OtlpLogs, TelemetryError> {
        let exporter = opentelemetry_otlp::LogExporter::builder()
            .with_http()
            .with_http_client(OtlpClient::new(&target.export)?)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(target.export.url.as_str())
            .with_timeout(target.export.timeout)
            .build()
            .map_err(|error| TelemetryError::Exporter(error.to_string()))?;
        let waiting = Arc::new(WaitingRecords::new(MAX_WAITING_BYTES));
        let exporter = Counted { exporter, waiting: Arc::clone(&waiting), metrics: Arc::clone(metrics) };
        let queue = BatchConfigBuilder::default()
            .with_max_queue_size(MAX_WAITING_RECORDS)
            .with_max_export_batch_size(BATCH)
            .with_scheduled_delay(DELAY);
        let processor = BatchLogProcessor::builder(exporter).with_batch_config(queue.build()).build();
        let resource = otlp::resource(&target.service_name, &target.resource_attributes);
        let provider =
            SdkLoggerProvider::builder().with_log_processor(processor).with_resource(resource).build();
        let logger = provider.logger("vmcp.audit");
        Ok(OtlpLogs { provider, logger, waiting, metrics: Arc::clone(metrics) })
    }

    /// Queues an event, whose text becomes the body; a full queue drops it.
    pub(super) fn write(&self, kind: &'static str, line: &[u8], at: EventTrace) {
        let mut record = self.logger.create_log_record();
        record.set_timestamp(SystemTime::now());
        record.set_severity_number(Severity::Info);
        record.set_severity_text("INFO");
        record.set_event_name(kind);
        record.set_body(AnyValue::from(String::from_utf8_lossy(line.trim_ascii_end()).into_owned()));
        record.add_attribute("event.type", kind);
        if let Some(trace) = at.trace {
            let span = at.span.map_or(SpanId::INVALID, SpanId::from_bytes);
            record.set_trace_context(TraceId::from_bytes(trace), span, None);
        }
        if self.waiting.enter(size_of(&record)) {
            self.logger.emit(record);
        } else {
            self.metrics.audit_events_dropped.inc();
        }
    }
}

impl Drop for OtlpLogs {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown_with_timeout(FLUSH_TIMEOUT) {
            tracing::warn!(%error, "the last audit events may not have reached the collector");
        }
    }
}

/// An exporter that counts what the collector does not take.
#[derive(Debug)]
struct Counted {
    exporter: opentelemetry_otlp::LogExporter,
    waiting: Arc<WaitingRecords>,
    metrics: Arc<Metrics>,
}

impl LogExporter for Counted {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let events = batch.iter().count();
        let bytes = batch.iter().map(|(record, _)| size_of(record)).sum();
        let exported = self.exporter.export(batch).await;
        self.waiting.leave(events, bytes);
        if let Err(error) = &exported {
            self.metrics.audit_events_dropped.inc_by(events as u64);
            tracing::error!(%error, events, "audit events are lost: the collector does not take them (telemetry.endpoint)");
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
