//! Definition of search_tools.

use serde_json::{Value, json};
use vmcp_config::Config;

use super::{Names, OptimTool};

/// Returns the definition.
pub(super) fn definition(names: &Names<'_>, config: &Config) -> Value {
    let limit = config.optimizer.limits.description_chars;
    json!({
        "name": names.listed(OptimTool::SearchTools),
        "title": "Search tools",
        "description": "Returns names and scores of the tools that fit a task, best first.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "maxLength": limit, "description": "The task in plain words."},
                "server": {"type": "string", "description": "Optional: only this server's tools."},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20, "description": "Most tools."},
                "mode": {
                    "enum": ["semantic", "hybrid", "llm"],
                    "description": "Optional: the search alone, a language model among its first hits, or among all tools."
                }
            },
            "required": ["query"]
        },
        "annotations": {"title": "Search tools", "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false}
    })
}
