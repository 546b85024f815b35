//! A real OpenTelemetry Collector, built from its Go modules: it writes what it receives to a file.

use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::{Process, eventually, found_by, free_port};

/// The program of the Collector.
#[derive(Debug)]
pub struct CollectorProgram(PathBuf);

impl CollectorProgram {
    /// Finds it, or builds it, or says why it is missing.
    pub async fn find() -> Result<Self, String> {
        found_by("otel-collector.sh").await.map(|path| Self(path.into()))
    }
}

/// A running Collector.
pub struct OtelCollector {
    /// URL for `telemetry.endpoint`.
    pub endpoint: String,
    /// Address of its receiver over gRPC.
    pub grpc_endpoint: String,
    folder: tempfile::TempDir,
    _process: Process,
}

impl OtelCollector {
    /// Starts one and waits until it receives. With the PEM texts of a certificate and its key, gRPC needs
    /// TLS.
    pub async fn start(program: &CollectorProgram, tls: Option<&(String, String)>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let [receives, grpc] = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
        let mut by_grpc = json!({"endpoint": grpc});
        let scheme = if tls.is_some() { "https" } else { "http" };
        if let Some((certificate, key)) = tls {
            let [cert_file, key_file] =
                [("collector.crt", certificate), ("collector.key", key)].map(|(name, pem)| {
                    let file = folder.path().join(name);
                    std::fs::write(&file, pem).expect("a file");
                    file
                });
            by_grpc["tls"] = json!({"cert_file": cert_file, "key_file": key_file});
        }
        let pipeline = json!({"receivers": ["otlp"], "exporters": ["file"]});
        let config = json!({
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": receives}, "grpc": by_grpc}}},
            "exporters": {"file": {"path": folder.path().join("received.json"), "flush_interval": "100ms"}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"traces": pipeline, "metrics": pipeline, "logs": pipeline},
            },
        });
        let file = folder.path().join("collector.yaml");
        // JSON is YAML.
        std::fs::write(&file, config.to_string()).expect("a file");
        let mut command = Command::new(&program.0);
        let process = Process::start("collector", command.arg(format!("--config=file:{}", file.display())));
        process.line_after("Everything is ready").await;
        let grpc_endpoint = format!("{scheme}://{grpc}");
        Self { endpoint: format!("http://{receives}"), grpc_endpoint, folder, _process: process }
    }

    /// Returns what it received of one signal, `resourceSpans`, `resourceMetrics` or `resourceLogs`: the
    /// resources with everything below them.
    pub fn received(&self, signal: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("received.json")).unwrap_or_default();
        // The last line may be half written.
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter_map(|line| line[signal].as_array().cloned()).flatten().collect()
    }

    /// Waits until `find` finds something among the received resources of one signal.
    pub async fn find<T>(&self, signal: &str, find: impl Fn(&[Value]) -> Option<T>) -> T {
        eventually(&format!("{signal} at the collector"), async || find(&self.received(signal))).await
    }
}
