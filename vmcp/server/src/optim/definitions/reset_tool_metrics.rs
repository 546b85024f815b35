//! Definition of reset_tool_metrics.

use serde_json::{Value, json};

use super::{Names, OptimTool};

/// Returns the definition.
pub(super) fn definition(names: &Names<'_>) -> Value {
    json!({
        "name": names.of(OptimTool::ResetToolMetrics),
        "title": "Reset metrics of tools",
        "description": "Forgets the metrics of tools: of one tool, of one server, or of all.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "server": {"type": "string", "description": "Optional: only this server's tools."},
                "tool": {"type": "string", "description": "Optional: only this tool."}
            }
        },
        "annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": true, "openWorldHint": false}
    })
}
