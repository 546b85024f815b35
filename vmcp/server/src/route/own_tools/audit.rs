//! One log line for each call of one of our tools (R022-35): who, what, how it ended, how long it took. Never the
//! arguments and never the result. The line's trace is added by the log format.

use std::time::Instant;

use crate::optim::names::{NameStyle, OptimTool};
use crate::route::answer::Answer;

/// The target of the lines, for those who route them to a place of their own.
const TARGET: &str = "vmcp::audit";
/// The subject while there is no authentication.
const ANONYMOUS: &str = "anonymous";

/// A call under way.
pub(super) struct AuditRecord {
    started: Instant,
    tool: OptimTool,
    /// The tool that call_tool really called, once it is known.
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
