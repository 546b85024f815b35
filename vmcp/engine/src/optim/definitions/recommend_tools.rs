//! Definition of recommend_tools.

use serde_json::{Value, json};
use vmcp_config::Config;

use super::{Names, OptimTool};

/// Returns the definition.
pub(super) fn definition(names: &Names<'_>, config: &Config) -> Value {
    let limit = config.optimizer.limits.description_chars;
    json!({
        "name": names.listed(OptimTool::RecommendTools),
        "title": "Recommend tools",
        "description": "Recommends one to three tools for a task, with reasons.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "task_description": {
                    "type": "string", "minLength": 1, "maxLength": limit, "description": "The task in plain words."
                },
                "agent_id": {"type": "string", "description": "Optional: a profile, to recommend its tools only."},
                "search_mode": {
                    "enum": ["semantic", "hybrid", "llm"],
                    "description": "Optional: the search alone, a language model among its first hits, or among all tools."
                }
            },
            "required": ["task_description"]
        },
        "annotations": {"title": "Recommend tools", "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false}
    })
}
