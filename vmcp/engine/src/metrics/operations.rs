//! Durations of MCP's operations and sessions, in the names and labels of OpenTelemetry's semantic
//! conventions for MCP, spelled for Prometheus.
//!
//! Source: open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md (status Development). Labels without
//! a value are empty, which Prometheus reads as absent.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::RwLock;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::histogram::Histogram;
use vmcp_wire::{codes, methods};

use super::{Metrics, TraceLabels};

/// Upper bounds of the conventions, from 10 ms to 300 s, and below them what a relay needs, in seconds.
const OPERATION_SECONDS: [f64; 21] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0,
    5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
];
/// Most names of tools in labels; the calls of further tools are counted together.
const MAX_TOOL_NAMES: usize = 1_000;
/// Value of a label whose true value is not among the known ones.
pub(crate) const OTHER: &str = "_OTHER";

/// Labels of a client's request.
#[derive(Clone, Debug, PartialEq, Eq, EncodeLabelSet)]
pub struct ServerOperation {
    /// The method, or `_OTHER`.
    pub mcp_method_name: &'static str,
    /// The called tool, by its listed name; see [`Metrics::tool_name`].
    pub gen_ai_tool_name: Arc<str>,
    /// `tool_error`, `cancelled`, the JSON-RPC code, or `_OTHER`; empty for a success.
    pub error_type: &'static str,
    /// `tcp` or `pipe`.
    pub network_transport: &'static str,
    /// Revision of the protocol.
    pub mcp_protocol_version: &'static str,
}

/// Labels of a call at its backend.
#[derive(Clone, Debug, PartialEq, Eq, EncodeLabelSet)]
pub struct ClientOperation {
    /// The method, or `_OTHER`.
    pub mcp_method_name: &'static str,
    /// The called tool, by its backend's name; see [`Metrics::tool_name`].
    pub gen_ai_tool_name: Arc<str>,
    /// As [`ServerOperation::error_type`], or the category of a call without an answer.
    pub error_type: &'static str,
    /// `tcp` or `pipe`.
    pub network_transport: &'static str,
    /// The backend's configured name.
    pub backend: Arc<str>,
}

/// Labels of a client's session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ServerSession {
    /// `tcp` or `pipe`.
    pub network_transport: &'static str,
    /// Revision of the protocol.
    pub mcp_protocol_version: &'static str,
}

impl Hash for ServerOperation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.gen_ai_tool_name.as_bytes());
        hash_lengths([self.mcp_method_name, self.error_type, self.mcp_protocol_version], state);
    }
}

impl Hash for ClientOperation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.gen_ai_tool_name.as_bytes());
        state.write(self.backend.as_bytes());
        hash_lengths([self.mcp_method_name, self.error_type, self.network_transport], state);
    }
}

/// Adds labels of few values by their lengths. A call hashes its labels twice; a hash over all texts costs
/// more than to compare the few series that differ in these labels alone.
fn hash_lengths<H: Hasher>(labels: [&'static str; 3], state: &mut H) {
    state.write_u64(labels.iter().fold(0, |all, label| (all << 16) | label.len() as u64));
}

/// The names of tools that are labels already.
pub(super) type ToolNames = RwLock<HashSet<Arc<str>>>;

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
    methods::core_request(method).unwrap_or(OTHER)
}

/// Returns the label of a JSON-RPC code, which a backend may have made up.
pub fn code_label(code: i64) -> &'static str {
    codes::defined(code).unwrap_or(OTHER)
}

impl Metrics {
    /// Returns the label of a tool of the catalog: its name, or `_OTHER` once there are 1,000 names.
    pub fn tool_name(&self, name: &str) -> Arc<str> {
        let names = self.tool_names.read();
        match names.get(name) {
            Some(known) => return Arc::clone(known),
            None if names.len() >= MAX_TOOL_NAMES => return OTHER.into(),
            None => drop(names),
        }
        let mut names = self.tool_names.write();
        // Others may have added names since.
        match names.get(name) {
            Some(known) => Arc::clone(known),
            None if names.len() >= MAX_TOOL_NAMES => OTHER.into(),
            None => {
                let label = Arc::<str>::from(name);
                names.insert(Arc::clone(&label));
                label
            }
        }
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
            error_type: "",
            network_transport: "tcp",
            mcp_protocol_version: "2026-07-28",
        }
    }

    #[test]
    fn a_flood_of_names_makes_a_bounded_number_of_series() {
        let metrics = Metrics::new();
        for at in 0..3 * MAX_TOOL_NAMES {
            let operation = operation(&metrics, &format!("vendor/{at}"), &format!("tool_{at}"));
            metrics.count_server_operation(&operation, Duration::from_millis(3), None);
        }
        let text = metrics.encode();
        let series =
            text.lines().filter(|line| line.starts_with("mcp_server_operation_duration_seconds_count"));
        assert_eq!(series.count(), MAX_TOOL_NAMES + 1);
        let rest = r#"mcp_method_name="_OTHER",gen_ai_tool_name="_OTHER""#;
        let rest = text.lines().find(|line| line.contains("_count") && line.contains(rest));
        assert!(rest.is_some_and(|line| line.ends_with(&format!(" {}", 2 * MAX_TOOL_NAMES))), "{rest:?}");
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
