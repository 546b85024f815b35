//! Definition of get_tool_schema.

use serde_json::{Value, json};

use super::{Names, OptimTool};

/// Returns the definition.
pub(super) fn definition(names: &Names<'_>) -> Value {
    let call = names.if_offered(OptimTool::CallTool, " Call it with ");
    json!({
        "name": names.listed(OptimTool::GetToolSchema),
        "title": "Get a tool's schema",
        "description": format!("Returns description and input schema of one tool.{call}"),
        "inputSchema": {
            "type": "object",
            "properties": {
                "tool_name": {"type": "string", "description": "The tool's name."},
                "server_name": {
                    "type": "string",
                    "description": "Optional: the server; tool_name may then be the server's own name for the tool."
                }
            },
            "required": ["tool_name"]
        },
        "annotations": {"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false}
    })
}
