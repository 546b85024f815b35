//! Definitions of execute_code and execute_tool_script.

use std::time::Duration;

use serde_json::{Value, json};
use vmcp_config::Config;

use super::super::{Names, OptimTool};

/// Returns the definition of execute_code.
pub(in crate::optim::definitions) fn definition(names: &Names<'_>, config: &Config) -> Value {
    let milliseconds = |limit: Duration| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    // CPython in a Job has a folder for temporary files.
    let (images, lacks) = if config.code.job.is_some() {
        ("Images: PNG files saved in the folder PICTURES. ", "No network.")
    } else {
        ("Images: plot(\"bar\", rows, x, y); emit_svg(text). ", "No files, no network.")
    };
    let description = format!(
        "Runs a Python script that calls tools; only its result comes back. For many calls, or large results. \
         Tools: server.tool(argument=value); call_tool(server, tool, args); parallel([lambda: server.tool(n=1)]); \
         search_tools(text); describe(\"server.tool\"). {images}The last expression is the result. {lacks}"
    );
    let mut definition = json!({
        "name": names.listed(OptimTool::ExecuteCode),
        "title": "Execute code",
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {
                "code": {"type": "string", "minLength": 1, "description": "The script."},
                "context": {"description": "Optional: the script's CONTEXT."},
                "timeout_ms": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": milliseconds(config.code.max_timeout),
                    "default": milliseconds(config.code.timeout),
                    "description": "Time limit."
                }
            },
            "required": ["code"]
        },
        "annotations": {"title": "Execute code", "readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true}
    });
    if config.code.llm.is_offered(config.optimizer.llm.is_some())
        && let Some(schema) = definition.get_mut("inputSchema").and_then(Value::as_object_mut)
    {
        // Either `code` or `task`: clients refuse a schema with `oneOf` at its top.
        schema.remove("required");
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            let description =
                "In place of code: words of which a language model makes the script, shown in the answer.";
            properties.insert("task".to_owned(), json!({"type": "string", "description": description}));
        }
    }
    definition
}

/// Returns the definition of execute_tool_script, with the arguments of ToolHive.
pub(in crate::optim::definitions) fn tool_script(names: &Names<'_>) -> Value {
    json!({
        "name": names.listed(OptimTool::ExecuteToolScript),
        "title": "Execute a tool script",
        "description":
            "Executes a Starlark script that calls tools; only its result comes back, by 'return'. Each tool is a function \
             by its listed name (other characters than letters and digits are _): name(argument=value), or \
             call_tool(\"name\", argument=value). parallel([lambda: name(n=1), ...]) returns results in order; \
             describe(\"name\") the signature of a tool.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "script": {"type": "string", "minLength": 1, "description": "The script."},
                "data": {"type": "object", "description": "Optional: values by the names that the script has for them."}
            },
            "required": ["script"]
        },
        "annotations": {"title": "Execute a tool script", "readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true}
    })
}
