//! Definition of call_tool.

pub(super) mod execute_code;

use serde_json::{Value, json};
use vmcp_config::Config;

use super::Names;

/// Returns the definition.
pub(super) fn definition(names: &Names<'_>, config: &Config) -> Value {
    let (name, find) = (&names.call_tool, &names.find_tool);
    let name_chars = config.optimizer.limits.tool_name_chars;
    let mut definition = json!({
        "name": name,
        "title": "Call a tool",
        "description": format!(
            "Calls a tool that {find} returned and gives back that tool's result. Pass the tool's `name` as tool_name and \
             arguments that satisfy its `parameters` schema as parameters. Search with {find} first if you do not know the \
             tool's exact name and schema."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "tool_name": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": name_chars,
                    "description": format!("The tool's name as {find} returned it.")
                },
                "parameters": {
                    "type": "object",
                    "description": "The tool's arguments, as its schema wants them."
                },
                "server_name": {
                    "type": "string",
                    "maxLength": name_chars,
                    "description": "Optional: the server that has the tool; tool_name may then be the server's own name for it."
                },
                "timeout": {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": config.proxy.max_tool_timeout.as_secs_f64(),
                    "description": "Optional: seconds to wait for the result."
                },
                "include_fallbacks": {
                    "type": "boolean",
                    "default": true,
                    "description": "Name similar tools if the call fails."
                },
                "response_format": {
                    "enum": ["mcp", "envelope", "compact"],
                    "default": "mcp",
                    "description": "\"mcp\": the result as it is. \"envelope\": {success, server, tool, result}. \"compact\": \
                                    {success, result}."
                }
            },
            "required": ["tool_name"]
        },
        "annotations": {"title": "Call a tool", "readOnlyHint": false, "destructiveHint": true, "openWorldHint": true}
    });
    if config.optimizer.large_results.enabled
        && let Some(properties) =
            definition.pointer_mut("/inputSchema/properties").and_then(Value::as_object_mut)
    {
        properties.insert(
            "store_result".to_owned(),
            json!({
                "type": "boolean",
                "default": false,
                "description": "Keep the result and answer with its result_ref, whatever its size."
            }),
        );
    }
    definition
}
