//! Definition of execute_code.

use std::time::Duration;

use serde_json::{Value, json};
use vmcp_config::Config;

use super::super::{Names, OptimTool};

/// Returns the definition.
pub(in crate::optim::definitions) fn definition(names: &Names<'_>, config: &Config) -> Value {
    let milliseconds = |limit: Duration| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    json!({
        "name": names.listed(OptimTool::ExecuteCode),
        "title": "Execute code",
        "description":
            "Runs a Python script that calls tools; only its result comes back. For many calls, or large results. \
             Tools: server.tool(argument=value); call_tool(server, tool, args); parallel([lambda: server.tool(n=1)]); \
             search_tools(text); describe(\"server.tool\"). Images: plot(\"bar\", rows, x, y); emit_svg(text). \
             The last expression is the result. No files, no network.",
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
    })
}
