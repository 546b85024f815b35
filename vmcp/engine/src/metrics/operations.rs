//! Durations of MCP's operations and sessions, in the names and labels of OpenTelemetry's semantic
//! conventions for MCP, spelled for Prometheus.
//!
//! Source: open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md (status Development). Labels without
//! a value are empty, which Prometheus reads as absent.

use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::RwLock;
use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::histogram::Histogram;
use vmcp_backend::ServerNetwork;
use vmcp_wire::{codes, methods};

use super::{Metrics, TCP, TraceLabels};

/// Upper bounds of the conventions, from 10 ms to 300 s, and below them what a relay needs, in seconds.
const OPERATION_SECONDS: [f64; 21] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0,
    5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
];
/// Most names of tools in labels, and of prompts; the calls of further ones are counted together.
const MAX_NAMES: usize = 1_000;
/// Value of a label whose true value is not among the known ones.
pub(crate) const OTHER: &str = "_OTHER";

/// Labels of a client's request or notification. Labels that follow from others are added as they are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOperation {
    /// The method, or `_OTHER`.
    pub mcp_method_name: &'static str,
    /// The called tool, by its listed name; see [`Metrics::tool_name`].
    pub gen_ai_tool_name: Arc<str>,
    /// The rendered prompt, by its listed name; see [`Metrics::prompt_name`].
    pub gen_ai_prompt_name: Arc<str>,
    /// `tool_error`, `cancelled`, the JSON-RPC code, or `_OTHER`; empty for a success.
    pub error_type: &'static str,
    /// `tcp` or `pipe`.
    pub network_transport: &'static str,
    /// Revision of the protocol.
    pub mcp_protocol_version: &'static str,
}

/// Labels of a call at its backend. Labels that follow from others are added as they are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOperation {
    /// The method, or `_OTHER`.
    pub mcp_method_name: &'static str,
    /// The called tool, by its backend's name; see [`Metrics::tool_name`].
    pub gen_ai_tool_name: Arc<str>,
    /// The rendered prompt, by its listed name; see [`Metrics::prompt_name`].
    pub gen_ai_prompt_name: Arc<str>,
    /// As [`ServerOperation::error_type`], or the category of a call without an answer.
    pub error_type: &'static str,
    /// Revision of the protocol; empty if it is unknown.
    pub mcp_protocol_version: &'static str,
    /// The way to the backend.
    pub network: Arc<ServerNetwork>,
    /// The backend's configured name.
    pub backend: Arc<str>,
}

/// Labels of a client's session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerSession {
    /// `tcp` or `pipe`.
    pub network_transport: &'static str,
    /// Revision of the protocol.
    pub mcp_protocol_version: &'static str,
}

impl Hash for ServerOperation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.gen_ai_tool_name.as_bytes());
        state.write(self.gen_ai_prompt_name.as_bytes());
        hash_lengths([self.mcp_method_name, self.error_type, self.mcp_protocol_version], state);
    }
}

impl Hash for ClientOperation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.gen_ai_tool_name.as_bytes());
        state.write(self.gen_ai_prompt_name.as_bytes());
        state.write(self.backend.as_bytes());
        hash_lengths([self.mcp_method_name, self.error_type, self.mcp_protocol_version], state);
    }
}

/// Adds labels of few values by their lengths. A call hashes its labels twice; a hash over all texts costs
/// more than to compare the few series that differ in these labels alone.
fn hash_lengths<H: Hasher>(labels: [&'static str; 3], state: &mut H) {
    state.write_u64(labels.iter().fold(0, |all, label| (all << 16) | label.len() as u64));
}

/// The names of tools, or of prompts, that are labels already.
pub(super) type LabelNames = RwLock<HashSet<Arc<str>>>;

impl EncodeLabelSet for ServerOperation {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), fmt::Error> {
        let labels: [(&str, &str); 9] = [
            ("mcp_method_name", self.mcp_method_name),
            ("gen_ai_tool_name", &self.gen_ai_tool_name),
            ("gen_ai_prompt_name", &self.gen_ai_prompt_name),
            ("gen_ai_operation_name", operation_name(self.mcp_method_name)),
            ("error_type", self.error_type),
            ("rpc_response_status_code", status_code(self.error_type)),
            ("network_transport", self.network_transport),
            ("network_protocol_name", client_protocol(self.network_transport)),
            ("mcp_protocol_version", self.mcp_protocol_version),
        ];
        EncodeLabelSet::encode(&labels, encoder)
    }
}

impl EncodeLabelSet for ClientOperation {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), fmt::Error> {
        let port = port_label(&self.network);
        let labels: [(&str, &str); 12] = [
            ("mcp_method_name", self.mcp_method_name),
            ("gen_ai_tool_name", &self.gen_ai_tool_name),
            ("gen_ai_prompt_name", &self.gen_ai_prompt_name),
            ("gen_ai_operation_name", operation_name(self.mcp_method_name)),
            ("error_type", self.error_type),
            ("rpc_response_status_code", status_code(self.error_type)),
            ("network_transport", self.network.transport),
            ("network_protocol_name", self.network.protocol),
            ("mcp_protocol_version", self.mcp_protocol_version),
            ("server_address", &self.network.address),
            ("server_port", &port),
            ("backend", &self.backend),
        ];
        EncodeLabelSet::encode(&labels, encoder)
    }
}

impl EncodeLabelSet for ServerSession {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), fmt::Error> {
        let labels: [(&str, &str); 3] = [
            ("network_transport", self.network_transport),
            ("network_protocol_name", client_protocol(self.network_transport)),
            ("mcp_protocol_version", self.mcp_protocol_version),
        ];
        EncodeLabelSet::encode(&labels, encoder)
    }
}

/// Returns `gen_ai.operation.name`: calls of tools alone have one.
fn operation_name(method: &str) -> &'static str {
    if method == methods::TOOLS_CALL { "execute_tool" } else { "" }
}

/// Returns `rpc.response.status_code` of an `error.type`: the code, if it is one.
fn status_code(error_type: &'static str) -> &'static str {
    if error_type.starts_with('-') || error_type == OTHER { error_type } else { "" }
}

/// Returns `network.protocol.name` of clients.
fn client_protocol(transport: &str) -> &'static str {
    if transport == TCP { "http" } else { "" }
}

/// Returns the label of a server's port.
pub(super) fn port_label(network: &ServerNetwork) -> String {
    network.port.map(|port| port.to_string()).unwrap_or_default()
}

/// Makes a histogram of the conventions.
pub(super) fn operation_histogram() -> Histogram {
    Histogram::new(OPERATION_SECONDS)
}

/// Makes a histogram of the conventions with exemplars.
pub(super) fn traced_operation_histogram() -> HistogramWithExemplars<TraceLabels> {
    HistogramWithExemplars::new(OPERATION_SECONDS.into_iter())
}

/// Returns the time of an exemplar, if there is one.
fn now_if(trace: Option<&TraceLabels>) -> Option<SystemTime> {
    trace.map(|_| SystemTime::now())
}

/// Returns the label of a method, which may be a client's text.
pub fn method_label(method: &str) -> &'static str {
    methods::core_request(method).or_else(|| methods::core_notification(method)).unwrap_or(OTHER)
}

/// Returns the label of a JSON-RPC code, which a backend may have made up.
pub fn code_label(code: i64) -> &'static str {
    codes::defined(code).unwrap_or(OTHER)
}

/// Returns a name that is a label already, or becomes one while there is room; else `_OTHER`.
fn bounded_label(labels: &LabelNames, name: &str) -> Arc<str> {
    let names = labels.read();
    match names.get(name) {
        Some(known) => return Arc::clone(known),
        None if names.len() >= MAX_NAMES => return OTHER.into(),
        None => drop(names),
    }
    let mut names = labels.write();
    // Others may have added names since.
    match names.get(name) {
        Some(known) => Arc::clone(known),
        None if names.len() >= MAX_NAMES => OTHER.into(),
        None => {
            let label = Arc::<str>::from(name);
            names.insert(Arc::clone(&label));
            label
        }
    }
}

impl Metrics {
    /// Returns the label of a tool of the catalog: its name, or `_OTHER` once there are 1,000 names.
    pub fn tool_name(&self, name: &str) -> Arc<str> {
        bounded_label(&self.tool_names, name)
    }

    /// Returns the label of a prompt of the catalog, as [`Metrics::tool_name`] does for tools.
    pub fn prompt_name(&self, name: &str) -> Arc<str> {
        bounded_label(&self.prompt_names, name)
    }

    /// Counts a call that reached its backend. `trace` is its exported span.
    pub fn count_client_operation(
        &self,
        operation: &ClientOperation,
        took: Duration,
        trace: Option<TraceLabels>,
    ) {
        let at = now_if(trace.as_ref());
        self.client_operations.get_or_create(operation).observe(took.as_secs_f64(), trace, at);
    }

    /// Counts a client's session that has ended.
    pub fn count_server_session(&self, session: &ServerSession, lived: Duration) {
        self.server_sessions.get_or_create(session).observe(lived.as_secs_f64());
    }

    /// Counts a client's request. `trace` is its exported span.
    pub fn count_server_operation(
        &self,
        operation: &ServerOperation,
        took: Duration,
        trace: Option<TraceLabels>,
    ) {
        let at = now_if(trace.as_ref());
        self.server_operations.get_or_create(operation).observe(took.as_secs_f64(), trace, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(metrics: &Metrics, method: &str, tool: &str) -> ServerOperation {
        ServerOperation {
            mcp_method_name: method_label(method),
            gen_ai_tool_name: metrics.tool_name(tool),
            gen_ai_prompt_name: Arc::default(),
            error_type: "",
            network_transport: "tcp",
            mcp_protocol_version: "2026-07-28",
        }
    }

    #[test]
    fn a_flood_of_names_makes_a_bounded_number_of_series() {
        let metrics = Metrics::new();
        for at in 0..3 * MAX_NAMES {
            let operation = operation(&metrics, &format!("vendor/{at}"), &format!("tool_{at}"));
            metrics.count_server_operation(&operation, Duration::from_millis(3), None);
        }
        let text = metrics.encode();
        let series =
            text.lines().filter(|line| line.starts_with("mcp_server_operation_duration_seconds_count"));
        assert_eq!(series.count(), MAX_NAMES + 1);
        let rest = r#"mcp_method_name="_OTHER",gen_ai_tool_name="_OTHER""#;
        let rest = text.lines().find(|line| line.contains("_count") && line.contains(rest));
        assert!(rest.is_some_and(|line| line.ends_with(&format!(" {}", 2 * MAX_NAMES))), "{rest:?}");
    }

    #[test]
    fn labels_that_follow_from_others_are_those_of_the_conventions() {
        let metrics = Metrics::new();
        let call = ServerOperation { error_type: "-32602", ..operation(&metrics, "tools/call", "echo") };
        metrics.count_server_operation(&call, Duration::ZERO, None);
        let prompt = ServerOperation {
            gen_ai_tool_name: Arc::default(),
            gen_ai_prompt_name: metrics.prompt_name("greet"),
            network_transport: "pipe",
            ..operation(&metrics, "prompts/get", "echo")
        };
        metrics.count_server_operation(&prompt, Duration::ZERO, None);
        let network = ServerNetwork {
            transport: "tcp",
            protocol: "websocket",
            address: "mcp.example.com".into(),
            port: Some(443),
        };
        let client = ClientOperation {
            mcp_method_name: "tools/call",
            gen_ai_tool_name: metrics.tool_name("echo"),
            gen_ai_prompt_name: Arc::default(),
            error_type: "tool_error",
            mcp_protocol_version: "2025-11-25",
            network: network.into(),
            backend: "remote".into(),
        };
        metrics.count_client_operation(&client, Duration::ZERO, None);
        let text = metrics.encode();
        for labels in [
            r#"gen_ai_operation_name="execute_tool",error_type="-32602",rpc_response_status_code="-32602","#,
            r#"network_transport="tcp",network_protocol_name="http","#,
            r#"gen_ai_prompt_name="greet",gen_ai_operation_name="",error_type="","#,
            r#"network_transport="pipe",network_protocol_name="","#,
            r#"error_type="tool_error",rpc_response_status_code="",network_transport="tcp","#,
            r#"network_protocol_name="websocket",mcp_protocol_version="2025-11-25","#,
            r#"server_address="mcp.example.com",server_port="443",backend="remote""#,
        ] {
            assert!(text.contains(labels), "{labels} is missing in {text}");
        }
    }

    #[test]
    fn bounds_are_those_of_the_conventions_and_finer_below() {
        let metrics = Metrics::new();
        let operation = operation(&metrics, "tools/call", "echo");
        metrics.count_server_operation(&operation, Duration::from_micros(70), None);
        let text = metrics.encode();
        let text = text.lines().filter(|line| line.starts_with("mcp_server_operation"));
        let text = text.collect::<Vec<_>>().join("\n");
        for bound in [
            "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1.0", "2.0", "5.0", "10.0", "30.0", "60.0",
            "120.0", "300.0",
        ] {
            assert!(text.contains(&format!(r#"le="{bound}""#)), "{bound}");
        }
        let finest = text.lines().find(|line| line.contains(r#"le="0.0001""#)).expect("a bound of 100 µs");
        assert!(finest.ends_with(" 1"), "{finest}");
    }
}
