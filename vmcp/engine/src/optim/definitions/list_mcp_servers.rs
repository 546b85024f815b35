//! Definition of list_mcp_servers.

use serde_json::{Value, json};

use super::{Names, OptimTool};

/// Returns the definition.
pub(super) fn definition(names: &Names<'_>) -> Value {
    json!({
        "name": names.listed(OptimTool::ListMcpServers),
        "title": "List servers",
        "description": "Lists the connected servers with their states and numbers of tools.",
        "inputSchema": {"type": "object", "properties": {
            "project_id": {"type": "string", "description": "Optional: a profile, to list its servers only."},
        }},
        "annotations": {"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false}
    })
}
