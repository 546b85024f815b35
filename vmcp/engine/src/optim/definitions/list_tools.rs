//! Definition of list_tools.

use serde_json::{Value, json};

use super::{Names, OptimTool};

/// Returns the definition.
pub(super) fn definition(names: &Names<'_>) -> Value {
    let schema = names.if_offered(OptimTool::GetToolSchema, "; its schema: ");
    json!({
        "name": names.listed(OptimTool::ListTools),
        "title": "List tools",
        "description": format!(
            "Lists the tools of one server, or of all servers, each with a brief description{schema}."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "server": {"type": "string", "description": "Optional: only this server's tools."},
                "include_metrics": {
                    "type": "boolean",
                    "default": false,
                    "description": "Add success rate, mean latency and number of calls; null for a tool never called."
                }
            }
        },
        "annotations": {"title": "List tools", "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false}
    })
}
