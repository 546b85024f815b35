//! Telemetry: logs on standard error, traces over OTLP, metrics for Prometheus.

pub mod calls;
pub mod logs;
pub mod metrics;
pub mod traces;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Running telemetry; dropping it writes the log lines that wait.
#[derive(Debug)]
pub struct Telemetry {
    traces: Option<traces::Exporter>,
    _log: logs::LogThread,
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
    let log = logs::LogThread::start();
    tracing_subscriber::registry()
        .with(exporter.as_ref().map(traces::Exporter::layer))
        .with(logs::layer(logs, log.writer.clone())?)
        .try_init()
        .map_err(|_| TelemetryError::AlreadyInstalled)?;
    Ok(Telemetry { traces: exporter, _log: log })
}

/// Installs the logs of a command that a person runs; a line is written before the command goes on.
pub fn init_command(logs: &logs::LogSettings) -> Result<(), TelemetryError> {
    tracing_subscriber::registry()
        .with(logs::layer(logs, std::io::stderr)?)
        .try_init()
        .map_err(|_| TelemetryError::AlreadyInstalled)
}

impl Telemetry {
    /// Flushes the queued spans and log lines. Blocks for at most the exporter's timeout and a second.
    pub fn flush(self) {
        if let Some(exporter) = self.traces {
            exporter.shutdown();
        }
    }
}
