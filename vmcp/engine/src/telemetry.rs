//! Telemetry: logs on standard error, audit events, metrics for Prometheus; traces, metrics and log lines
//! over OTLP.

pub mod audit;
pub mod calls;
pub(crate) mod connections;
pub mod logs;
pub mod observed_shapes;
pub mod operations;
pub mod otlp;
pub mod query_log;
pub mod recent;
pub mod server_events;
pub mod tool_metrics;
pub mod topic_usage;
pub mod traces;

use std::path::PathBuf;

use self::otlp::log_lines::LogLines;
pub use crate::metrics::{self, PIPE, TCP};
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Running telemetry; dropping it writes the log lines that wait.
#[derive(Debug)]
pub struct Telemetry {
    traces: Option<traces::Exporter>,
    log_lines: Option<LogLines>,
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
    /// The authorities of a collector cannot be read.
    #[error("caBundlePath {path} of telemetry: {reason}; name a PEM file of certificate authorities")]
    Certificates {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// A subscriber is installed already.
    #[error("logging is set up already")]
    AlreadyInstalled,
}

/// Installs logs, and exporters of traces and log lines as `exports` asks for them. Call once per process,
/// before the runtime starts threads that log.
pub fn init(logs: &logs::LogSettings, exports: &vmcp_config::Telemetry) -> Result<Telemetry, TelemetryError> {
    let traces = exports.traces.as_ref().map(|export| traces::Exporter::new(export, exports)).transpose()?;
    let log_lines = exports.logs.as_ref().map(|export| LogLines::start(export, exports)).transpose()?;
    let log = logs::LogThread::start();
    let mut all = layers(logs::layer(logs, log.writer.clone())?, traces.as_ref());
    if let Some(lines) = &log_lines {
        all.push(lines.layer(logs)?);
    }
    tracing_subscriber::registry().with(all).try_init().map_err(|_| TelemetryError::AlreadyInstalled)?;
    if let Some(exporter) = &traces {
        exporter.serve_process();
    }
    Ok(Telemetry { traces, log_lines, _log: log })
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
    /// Flushes the queued log lines, for at most a second, and spans, for at most five. Blocks meanwhile.
    pub fn flush(self) {
        if let Some(lines) = self.log_lines {
            lines.shutdown();
        }
        if let Some(exporter) = self.traces {
            exporter.shutdown();
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing::info_span;

    use super::*;
    use crate::telemetry::traces::TraceSpan;

    #[test]
    fn only_an_exporter_enables_the_span_of_a_request() {
        // The exporter makes a TLS client; `main` installs the provider. Another test may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let file = "telemetry: { endpoint: 'http://127.0.0.1:9', samplingRate: 1 }";
        let settings = vmcp_config::load(file, "f", &|_| None).unwrap().config.telemetry;
        let exporter = traces::Exporter::new(settings.traces.as_ref().unwrap(), &settings).unwrap();
        for (exporter, enabled) in [(None, false), (Some(&exporter), true)] {
            let layers =
                layers(logs::layer(&logs::LogSettings::default(), std::io::stderr).unwrap(), exporter);
            let subscriber = tracing_subscriber::registry().with(layers);
            tracing::subscriber::with_default(subscriber, || {
                assert_eq!(TraceSpan::begin("request", |_| ()).is_none(), !enabled);
                assert!(!info_span!(target: "vmcp_backend", "backend").is_disabled());
            });
        }
    }
}
