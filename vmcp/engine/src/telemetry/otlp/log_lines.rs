//! [`LogLines`]: log lines as OTLP log records, with the ids of the trace and the span in which they were
//! written.
//!
//! The SDK's batch processor has a queue and a thread of its own. [`BoundedQueue`] stands before the
//! processor: it bounds the bytes that wait, and counts dropped lines.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry::logs::LogRecord as _;
use opentelemetry::trace::{SpanId, TraceFlags, TraceId};
use opentelemetry_appender_tracing::layer::{OpenTelemetryTracingBridge, TracingSpanAttributes};
use opentelemetry_otlp::{Protocol, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{
    BatchConfigBuilder, BatchLogProcessor, LogBatch, LogExporter, LogProcessor, SdkLogRecord,
    SdkLoggerProvider,
};
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::registry::LookupSpan;
use vmcp_config::{SignalExport, Telemetry};

use super::losses::{CollectorState, Signal};
use super::waiting_records::{MAX_WAITING_RECORDS, WaitingRecords, size_of};
use super::{OtlpClient, TARGET, resource};
use crate::telemetry::TelemetryError;
use crate::telemetry::logs::{self, LogSettings};
use crate::telemetry::traces::{self, TraceSpan};

/// Bytes of lines that wait for the collector: 8 MiB; a line beyond is dropped and counted.
const MAX_WAITING_BYTES: usize = 8 << 20;
/// Lines of one request.
const BATCH: usize = 512;
/// Longest time between a line and its export.
const DELAY: Duration = Duration::from_secs(1);
/// Time that the end of the process leaves for the lines that wait.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// Target prefix of vmcp's own lines; those of libraries are not exported.
const OWN: &str = "vmcp";
/// Field of the spans of backends that is copied into the lines inside them.
const BACKEND_FIELD: &str = "backend";

/// A running exporter of log lines.
#[derive(Debug)]
pub(in crate::telemetry) struct LogLines {
    provider: SdkLoggerProvider,
}

impl LogLines {
    /// Starts the exporter, which connects with its first line.
    pub(in crate::telemetry) fn start(
        export: &SignalExport,
        telemetry: &Telemetry,
    ) -> Result<LogLines, TelemetryError> {
        let exporter = opentelemetry_otlp::LogExporter::builder()
            .with_http()
            .with_http_client(OtlpClient::new(export)?)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(export.url.as_str())
            .with_timeout(export.timeout)
            .build()
            .map_err(|error| TelemetryError::Exporter(error.to_string()))?;
        let waiting = Arc::new(WaitingRecords::new(MAX_WAITING_BYTES));
        let exporter = CountedExporter {
            exporter,
            waiting: Arc::clone(&waiting),
            collector: CollectorState::new(Signal::Logs),
        };
        let queue = BatchConfigBuilder::default()
            .with_max_queue_size(MAX_WAITING_RECORDS)
            .with_max_export_batch_size(BATCH)
            .with_scheduled_delay(DELAY);
        let queue = BatchLogProcessor::builder(exporter).with_batch_config(queue.build()).build();
        let provider = SdkLoggerProvider::builder()
            .with_log_processor(BoundedQueue { queue, waiting })
            .with_resource(resource(&telemetry.service_name, &telemetry.resource_attributes))
            .build();
        Ok(LogLines { provider })
    }

    /// Returns the layer that takes the lines that `settings` let through to standard error.
    pub(in crate::telemetry) fn layer<S>(
        &self,
        settings: &LogSettings,
    ) -> Result<Box<dyn Layer<S> + Send + Sync>, TelemetryError>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let is_own = |target: &str| target.starts_with(OWN) && !target.starts_with(TARGET);
        let events = filter_fn(move |metadata| metadata.is_event() && is_own(metadata.target()));
        // The spans of backends are enabled at every level: they name the backend of a line.
        let backends =
            filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with(logs::BACKENDS));
        let filter = backends.or(events.and(logs::filter(settings, false)?));
        let bridge = OpenTelemetryTracingBridge::builder(&self.provider)
            .with_tracing_span_attributes(TracingSpanAttributes::allowlist([BACKEND_FIELD]))
            .build();
        Ok(bridge.with_filter(filter).boxed())
    }

    /// Sends the lines that wait, for at most a second.
    pub(in crate::telemetry) fn shutdown(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(FLUSH_TIMEOUT) {
            tracing::warn!(target: TARGET, %error, "the last log lines may not have reached the collector");
        }
    }
}

/// The queue of the SDK behind a bound on bytes.
#[derive(Debug)]
struct BoundedQueue {
    queue: BatchLogProcessor,
    waiting: Arc<WaitingRecords>,
}

impl LogProcessor for BoundedQueue {
    /// Adds the ids of the span that this thread is in, which the SDK does not know.
    fn emit(&self, record: &mut SdkLogRecord, scope: &InstrumentationScope) {
        if let Some(ids) = traces::ids(&TraceSpan::current()) {
            let flags = if ids.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
            let (trace, span) = (TraceId::from_bytes(ids.trace), SpanId::from_bytes(ids.span));
            record.set_trace_context(trace, span, Some(flags));
        }
        if self.waiting.enter(size_of(record)) {
            self.queue.emit(record, scope);
        } else {
            Signal::Logs.lose(1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.queue.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.queue.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.queue.set_resource(resource);
    }
}

/// An exporter that counts the lines that the collector does not take.
#[derive(Debug)]
struct CountedExporter {
    exporter: opentelemetry_otlp::LogExporter,
    waiting: Arc<WaitingRecords>,
    collector: CollectorState,
}

impl LogExporter for CountedExporter {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let lines = batch.iter().count();
        let bytes = batch.iter().map(|(record, _)| size_of(record)).sum();
        let exported = self.exporter.export(batch).await;
        self.waiting.leave(lines, bytes);
        self.collector.note(&exported, lines);
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
