//! Definition of get_tool_metrics.

use serde_json::{Value, json};

use super::{Names, OptimTool};

/// Returns the definition.
pub(super) fn definition(names: &Names<'_>) -> Value {
    json!({
        "name": names.listed(OptimTool::GetToolMetrics),
        "title": "Get metrics of tools",
        "description": "Returns calls, success rate and latency of tools: of all, of one server, or of one tool.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "server": {"type": "string", "description": "Optional: only this server's tools."},
                "tool": {"type": "string", "description": "Optional: only this tool."},
                "sort": {"enum": ["top", "failing"], "description": "Most reliable first, or only failing ones, worst first."},
                "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 10, "description": "Most tools, with sort."},
                "min_calls": {"type": "integer", "minimum": 0, "default": 5, "description": "Fewest calls, with sort: top."},
                "threshold": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.5, "description": "Success rate below which a tool is failing."},
                "scope": {"enum": ["all", "own"], "default": "all", "description": "All replicas of this server, or the one that answers."}
            }
        },
        "annotations": {"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false}
    })
}
