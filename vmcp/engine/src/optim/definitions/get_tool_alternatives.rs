//! Definition of get_tool_alternatives.

use serde_json::{Value, json};

use super::{Names, OptimTool};

/// Returns the definition.
pub(super) fn definition(names: &Names<'_>) -> Value {
    json!({
        "name": names.listed(OptimTool::GetToolAlternatives),
        "title": "Get alternatives",
        "description": "Returns the tools that may do the work of another one, for when it fails or does not fit.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "tool_name": {"type": "string", "description": "The tool to replace."},
                "server_name": {"type": "string", "description": "Optional: the server that has it."},
                "limit": {"type": "integer", "minimum": 1, "maximum": 10, "default": 5, "description": "Most tools to return."}
            },
            "required": ["tool_name"]
        },
        "annotations": {"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false}
    })
}
