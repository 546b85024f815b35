//! [`MetricsPush`]: a thread that exports metrics over OTLP, at an interval and once at its end.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource as WireResource;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use prost::Message as _;
use vmcp_config::Telemetry;

use super::families::{self, SampleTimes};
use super::losses::{CollectorState, Signal};
use super::{OtlpClient, TARGET, resource};
use crate::telemetry::TelemetryError;

/// Time that the end of the process leaves for the last export.
const LAST_EXPORT: Duration = Duration::from_secs(1);

/// Running export of metrics. Dropped, it ends without a last export.
#[derive(Debug)]
pub struct MetricsPush {
    stop: Sender<()>,
    ended: Receiver<()>,
}

/// The state of the thread.
struct Pusher<F> {
    client: OtlpClient,
    url: String,
    resource: WireResource,
    start: u64,
    render: F,
    collector: CollectorState,
}

impl MetricsPush {
    /// Starts the thread if metrics are to be exported. `render` returns the exposition of all metrics; the
    /// thread calls it once an interval.
    pub fn start(
        telemetry: &Telemetry,
        render: impl Fn() -> String + Send + 'static,
    ) -> Result<Option<MetricsPush>, TelemetryError> {
        let Some(export) = &telemetry.metrics else { return Ok(None) };
        let own = resource(&telemetry.service_name, &telemetry.resource_attributes);
        let attributes = ResourceAttributesWithSchema::from(&own).attributes.0;
        let pusher = Pusher {
            client: OtlpClient::new(export)?,
            url: export.url.to_string(),
            resource: WireResource { attributes, ..WireResource::default() },
            start: nanoseconds(SystemTime::now()),
            render,
            collector: CollectorState::new(Signal::Metrics),
        };
        let (stop, stopped) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let interval = telemetry.metrics_interval;
        let run = move || {
            loop {
                match stopped.recv_timeout(interval) {
                    Err(RecvTimeoutError::Timeout) => pusher.export(),
                    Ok(()) => break pusher.export(),
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            // Without a waiting `finish`, the receiver is gone.
            let _ = end.send(());
        };
        std::thread::Builder::new()
            .name("vmcp-metrics".to_owned())
            .spawn(run)
            .map_err(|error| TelemetryError::Exporter(error.to_string()))?;
        Ok(Some(MetricsPush { stop, ended }))
    }

    /// Exports once more and ends. Blocks for at most a second: a collector that is down ends the wait.
    pub fn finish(self) {
        let _ = self.stop.send(());
        if self.ended.recv_timeout(LAST_EXPORT).is_err() {
            tracing::warn!(target: TARGET, "the last metrics may not have reached the collector");
        }
    }
}

impl<F: Fn() -> String> Pusher<F> {
    fn export(&self) {
        let times = SampleTimes { start: self.start, now: nanoseconds(SystemTime::now()) };
        let scope = InstrumentationScope {
            name: "vmcp".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let metrics = families::metrics(&(self.render)(), times);
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }];
        let resource = Some(self.resource.clone());
        let of_process = ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() };
        let request = ExportMetricsServiceRequest { resource_metrics: vec![of_process] };
        let exported = self.client.post(&self.url, request.encode_to_vec());
        self.collector.note(&exported, 1);
    }
}

/// Returns nanoseconds since 1970.
fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
