//! Metrics of connections to backends: attempts that failed, sessions that ended.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};
use vmcp_backend::{EndedSession, ServerNetwork};

use super::Metrics;
use super::operations::port_label;

/// `network.transport` of HTTP.
pub const TCP: &str = "tcp";
/// `network.transport` of standard input and output.
pub const PIPE: &str = "pipe";

/// Labels of a failed attempt to connect.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ConnectFailureLabels {
    /// The backend's configured name.
    pub backend: String,
    /// `connect`, `timeout`, `closed`, `credentials`, `refused`, `status`, `protocol`, `stopped` or `other`.
    pub reason: &'static str,
}

/// Labels of a session at a backend.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientSession {
    /// The backend's configured name.
    pub backend: String,
    /// The way to the backend.
    pub network: Arc<ServerNetwork>,
    /// Revision of the protocol.
    pub mcp_protocol_version: &'static str,
}

impl EncodeLabelSet for ClientSession {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), fmt::Error> {
        let port = port_label(&self.network);
        let labels: [(&str, &str); 6] = [
            ("backend", self.backend.as_str()),
            ("network_transport", self.network.transport),
            ("network_protocol_name", self.network.protocol),
            ("mcp_protocol_version", self.mcp_protocol_version),
            ("server_address", &self.network.address),
            ("server_port", &port),
        ];
        EncodeLabelSet::encode(&labels, encoder)
    }
}

impl Metrics {
    /// Counts a failed attempt to connect.
    pub fn connect_failed(&self, backend: &str, reason: &'static str) {
        let labels = ConnectFailureLabels { backend: backend.to_owned(), reason };
        self.connect_failures.get_or_create(&labels).inc();
    }

    /// Counts a session that has ended.
    pub fn session_ended(&self, session: &EndedSession<'_>) {
        let labels = ClientSession {
            backend: session.backend.to_owned(),
            network: Arc::clone(session.network),
            mcp_protocol_version: session.revision,
        };
        self.client_sessions.get_or_create(&labels).observe(session.lived.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn connections_are_counted_by_backend() {
        let metrics = Metrics::new();
        metrics.connect_failed("jira", "refused");
        metrics.connect_failed("jira", "refused");
        let (backend, revision, lived) = ("jira", "2025-11-25", Duration::from_secs(3));
        let network = ServerNetwork { transport: "pipe", protocol: "", address: "".into(), port: None };
        let network = &Arc::new(network);
        metrics.session_ended(&EndedSession { backend, network, revision, lived });
        let text = metrics.encode();
        for line in [
            r#"vmcp_backend_connect_failures_total{backend="jira",reason="refused"} 2"#,
            r#"mcp_client_session_duration_seconds_sum{backend="jira",network_transport="pipe",network_protocol_name="",mcp_protocol_version="2025-11-25",server_address="",server_port=""} 3.0"#,
        ] {
            assert!(text.lines().any(|written| written == line), "{line} is missing in\n{text}");
        }
    }
}
