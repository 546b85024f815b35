//! What the server says about itself: logs, traces, metrics.

pub mod logs;
pub mod metrics;
pub mod traces;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Keeps the exporter alive; dropping it flushes what was not sent yet.
#[derive(Debug, Default)]
pub struct Telemetry {
    traces: Option<traces::Exporter>,
}

/// Why telemetry cannot start.
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
    /// Somebody installed a subscriber before.
    #[error("logging is set up already")]
    AlreadyInstalled,
}

/// Installs logs, and traces when `traces` is given. Call once per process, before the runtime starts threads of
/// its own that log.
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
    /// Sends what is still queued. Blocks for at most the exporter's timeout.
    pub fn flush(self) {
        if let Some(exporter) = self.traces {
            exporter.shutdown();
        }
    }
}
