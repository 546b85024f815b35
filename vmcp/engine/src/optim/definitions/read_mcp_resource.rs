//! Definition of read_mcp_resource.

use serde_json::{Value, json};

use super::{Names, OptimTool};

/// Returns the definition.
pub(super) fn definition(names: &Names<'_>) -> Value {
    json!({
        "name": names.listed(OptimTool::ReadMcpResource),
        "title": "Read a resource",
        "description": "Reads a resource of a server, such as a document that a tool's result links to.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "resource_uri": {"type": "string", "description": "The resource's URI."},
                "server_name": {"type": "string", "description": "Optional: the server that has it."}
            },
            "required": ["resource_uri"]
        },
        "annotations": {"readOnlyHint": true, "openWorldHint": true}
    })
}
