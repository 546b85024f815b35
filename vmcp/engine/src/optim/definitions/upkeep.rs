//! Definitions of the tools for operators' clients: refresh_tools, regenerate_embeddings, reset_tool_metrics.
//! Definitions of tools that change servers are in [`servers`], that of hooks in [`call_hook`].

pub(super) mod call_hook;
pub(super) mod servers;

use serde_json::{Value, json};

use super::{Names, OptimTool};

/// Returns the definition of reset_tool_metrics.
pub(super) fn reset_tool_metrics(names: &Names<'_>) -> Value {
    json!({
        "name": names.listed(OptimTool::ResetToolMetrics),
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

/// Returns the definition of refresh_tools.
pub(super) fn refresh_tools(names: &Names<'_>) -> Value {
    json!({
        "name": names.listed(OptimTool::RefreshTools),
        "title": "Refresh tools",
        "description": "Lists the tools of servers again, and counts which were added, updated and removed.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "server": {"type": "string", "description": "Optional: only this server."},
                "force_refresh": {
                    "type": "boolean", "default": false,
                    "description": "Optional: embed all tools anew, changed or not."
                }
            }
        },
        "annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": true}
    })
}

/// Returns the definition of regenerate_embeddings.
pub(super) fn regenerate_embeddings(names: &Names<'_>) -> Value {
    json!({
        "name": names.listed(OptimTool::RegenerateEmbeddings),
        "title": "Regenerate embeddings",
        "description": "Embeds tools anew for the search by meaning, whether or not they have changed.",
        "inputSchema": {
            "type": "object",
            "properties": {"server": {"type": "string", "description": "Optional: only this server's tools."}}
        },
        "annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": true}
    })
}
