//! Definition of search_available_tools.

use serde_json::{Value, json};
use vmcp_config::Config;

use super::{Names, OptimTool};

/// Returns the definition.
pub(super) fn definition(names: &Names<'_>, config: &Config) -> Value {
    let limit = config.optimizer.limits.description_chars;
    json!({
        "name": names.listed(OptimTool::SearchAvailableTools),
        "title": "Search available tools",
        "description": "Lists the tools of all servers whose name or description contains a text, also those that are not \
                        listed; of several words, the tools that fit best.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "maxLength": limit, "description": "Text to look for."},
                "context_id": {"type": "string", "description": "Optional: the context of the search."}
            },
            "required": ["query"]
        },
        "annotations": {"title": "Search available tools", "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false}
    })
}
