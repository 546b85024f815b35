//! Definition of list_tools.

use serde_json::{Value, json};

use super::{Names, OptimTool};

/// Tools in one answer of list_tools, unless the caller asks for another number: some 3,000 tokens.
pub const LISTED_TOOLS: usize = 100;
/// Largest `limit` of list_tools; a larger one counts as this.
pub const MAX_LISTED_TOOLS: usize = 1000;

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
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LISTED_TOOLS, "default": LISTED_TOOLS, "description": "Most tools to return."},
                "offset": {"type": "integer", "minimum": 0, "description": "Optional: next_offset of the answer before."},
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
