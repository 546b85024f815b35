//! Telemetry: logs on standard error, audit events, traces over OTLP, metrics for Prometheus.

pub mod audit;
mod call_metrics;
pub mod calls;
pub mod logs;
pub mod observed_shapes;
pub mod operations;
mod otlp;
pub mod recent;
pub mod tool_metrics;
pub mod topic_usage;
pub mod traces;

pub use crate::metrics;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt as _;

/// `network.transport` of HTTP.
pub const TCP: &str = "tcp";
/// `network.transport` of standard input and output.
pub const PIPE: &str = "pipe";

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
    /// An exporter cannot be built.
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
        .with(layers(logs::layer(logs, log.writer.clone())?, exporter.as_ref()))
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

/// Returns the layers in one list: a layer that is an absent `Option` has no filter of its own, and would
/// enable every span.
fn layers(
    logs: Box<dyn Layer<Registry> + Send + Sync>,
    exporter: Option<&traces::Exporter>,
) -> Vec<Box<dyn Layer<Registry> + Send + Sync>> {
    let recent = recent::layer().with_filter(recent::filter()).boxed();
    exporter.map(|exporter| exporter.layer().boxed()).into_iter().chain([logs, recent]).collect()
}

impl Telemetry {
    /// Flushes the queued spans and log lines. Blocks for at most the exporter's timeout and a second.
    pub fn flush(self) {
        if let Some(exporter) = self.traces {
            exporter.shutdown();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tracing::{debug_span, info_span};

    use super::*;

    #[test]
    fn only_an_exporter_enables_the_span_of_a_request() {
        // The exporter makes a TLS client; `main` installs the provider. Another test may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let settings = traces::TraceSettings {
            endpoint: "http://127.0.0.1:9".to_owned(),
            service_name: "vmcp".to_owned(),
            sampling_rate: 1.0,
            headers: HashMap::new(),
            timeout: std::time::Duration::from_secs(10),
            resource_attributes: std::collections::BTreeMap::new(),
        };
        let exporter = traces::Exporter::new(&settings).unwrap();
        for (exporter, enabled) in [(None, false), (Some(&exporter), true)] {
            let layers =
                layers(logs::layer(&logs::LogSettings::default(), std::io::stderr).unwrap(), exporter);
            let subscriber = tracing_subscriber::registry().with(layers);
            tracing::subscriber::with_default(subscriber, || {
                assert_eq!(info_span!(target: "vmcp::request", "request").is_disabled(), !enabled);
                assert!(debug_span!(target: "vmcp::request", "detail").is_disabled());
                assert!(!info_span!(target: "vmcp_backend", "backend").is_disabled());
            });
        }
    }
}
