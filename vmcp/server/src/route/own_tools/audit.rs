//! Audit log: one line for each call of an own tool, with subject, tool, outcome and latency. Neither
//! arguments nor results are ever logged. The log format adds the trace id.

use std::time::Instant;

use crate::optim::names::{NameStyle, OptimTool};
use crate::route::answer::Answer;

/// Log target of the audit lines, by which they can be filtered and routed.
const TARGET: &str = "vmcp::audit";
/// Subject while there is no authentication.
const ANONYMOUS: &str = "anonymous";

/// A call under way, to be logged when it ends.
pub(super) struct AuditRecord {
    started: Instant,
    tool: OptimTool,
    /// The tool that call_tool called, once it is known.
    pub(super) target: Option<String>,
}

impl AuditRecord {
    pub(super) fn start(tool: OptimTool) -> AuditRecord {
        AuditRecord { started: Instant::now(), tool, target: None }
    }

    /// Writes the line.
    pub(super) fn finish(self, answer: &Answer) {
        let outcome = match &answer.outcome {
            Ok(result) if result.is_tool_error() => "tool_error",
            Ok(_) => "ok",
            Err(_) => "rpc_error",
        };
        tracing::info!(
            target: TARGET,
            subject = ANONYMOUS,
            tool = NameStyle::Dotted.listed(self.tool.bare()),
            called = self.target,
            outcome,
            latency_ms = self.started.elapsed().as_secs_f64() * 1e3,
            "optimizer call"
        );
    }
}
