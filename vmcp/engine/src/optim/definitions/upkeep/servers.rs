//! Definitions of the tools that change servers, and find them in a registry.

use serde_json::{Value, json};

use super::super::{Names, OptimTool};

/// Returns the definition of add_mcp_server.
pub(in crate::optim::definitions) fn add(names: &Names<'_>) -> Value {
    json!({
        "name": names.listed(OptimTool::AddMcpServer),
        "title": "Add a server",
        "description": "Adds an MCP server and connects to it; its tools can be found at once. The user may be asked first.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "New name; lower-case letters, digits, - and _."},
                "transport": {"type": "string", "enum": ["http", "websocket", "stdio"]},
                "url": {"type": "string", "description": "Address, for http and websocket."},
                "headers": {"type": "object", "description": "HTTP headers, for http and websocket."},
                "command": {"type": "string", "description": "Program, for stdio; no shell."},
                "args": {"type": "array", "items": {"type": "string"}, "description": "Its arguments."},
                "env": {"type": "object", "description": "Its environment variables. Here and in headers a value is a text, or {\"secretRef\": {name, key}} for a secret that a rule lends."},
                "enabled": {"type": "boolean", "default": true}
            },
            "required": ["name", "transport"]
        },
        "annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": false, "openWorldHint": true}
    })
}

/// Returns the definition of search_registry.
pub(in crate::optim::definitions) fn search(names: &Names<'_>) -> Value {
    json!({
        "name": names.listed(OptimTool::SearchRegistry),
        "title": "Search for servers",
        "description": "Searches a registry for MCP servers that could be installed, or shows one with its command and inputs.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words of the name or the description."},
                "name": {"type": "string", "description": "Whole name of one server, to see all about it."},
                "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10}
            }
        },
        "annotations": {"readOnlyHint": true, "openWorldHint": true}
    })
}

/// Returns the definition of install_server.
pub(in crate::optim::definitions) fn install(names: &Names<'_>) -> Value {
    json!({
        "name": names.listed(OptimTool::InstallServer),
        "title": "Install a server",
        "description": "Adds an MCP server of the registry, with its version pinned. The user is asked for the permission and for values; secrets are set by the user, never here.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "Whole name in the registry; NAME@VERSION for another version than the latest."},
                "server": {"type": "string", "description": "Name here; by default the part behind the slash."},
                "via": {"type": "string", "enum": ["remote", "npm", "pypi", "oci"]},
                "values": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Values of inputs that are no secrets."}
            },
            "required": ["name"]
        },
        "annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": false, "openWorldHint": true}
    })
}

/// Returns the definition of remove_mcp_server.
pub(in crate::optim::definitions) fn remove(names: &Names<'_>) -> Value {
    let tool = OptimTool::RemoveMcpServer;
    of_one(names, tool, "Remove a server", "Removes an MCP server and its tools.", true)
}

/// Returns the definition of enable_mcp_server.
pub(in crate::optim::definitions) fn enable(names: &Names<'_>) -> Value {
    let description = "Switches an MCP server on and connects to it.";
    of_one(names, OptimTool::EnableMcpServer, "Enable a server", description, false)
}

/// Returns the definition of disable_mcp_server.
pub(in crate::optim::definitions) fn disable(names: &Names<'_>) -> Value {
    let description = "Switches an MCP server off: its tools can be neither found nor called until it is on.";
    of_one(names, OptimTool::DisableMcpServer, "Disable a server", description, false)
}

fn of_one(names: &Names<'_>, tool: OptimTool, title: &str, description: &str, destructive: bool) -> Value {
    json!({
        "name": names.listed(tool),
        "title": title,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {"name": {"type": "string", "description": "Name of the server."}},
            "required": ["name"]
        },
        "annotations": {"readOnlyHint": false, "destructiveHint": destructive, "idempotentHint": true, "openWorldHint": true}
    })
}
