//! Telemetry: logs on standard error, traces over OTLP, metrics for Prometheus.

pub mod calls;
pub mod logs;
pub mod metrics;
pub mod traces;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Running telemetry; dropping it flushes the spans that were not sent yet.
#[derive(Debug, Default)]
pub struct Telemetry {
    traces: Option<traces::Exporter>,
}

/// Errors of a start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The log filter does not parse.
    #[error(
        "operational.logLevel: `{0}` is no level or filter; use error, warn, info, debug, trace or a filter like vmcp=debug"
    )]
    Filter(String),
    /// The exporter cannot be built.
    #[error("telemetry.endpoint: {0}")]
    Exporter(String),
    /// A subscriber is installed already.
    #[error("logging is set up already")]
    AlreadyInstalled,
}

/// Installs logs, and traces when `traces` is given. Call once per process, before the runtime starts threads
/// that log.
pub fn init(
    logs: &logs::LogSettings,
    traces: Option<&traces::TraceSettings>,
) -> Result<Telemetry, TelemetryError> {
    let exporter = traces.map(traces::Exporter::new).transpose()?;
    tracing_subscriber::registry()
        .with(exporter.as_ref().map(traces::Exporter::layer))
        .with(logs::layer(logs)?)
        .try_init()
        .map_err(|_| TelemetryError::AlreadyInstalled)?;
    Ok(Telemetry { traces: exporter })
}

impl Telemetry {
    /// Flushes the queued spans. Blocks for at most the exporter's timeout.
    pub fn flush(self) {
        if let Some(exporter) = self.traces {
            exporter.shutdown();
        }
    }
}
