//! Definition of find_tool.

use serde_json::{Value, json};
use vmcp_config::{Config, OptimTool};

use super::Names;

/// Largest `limit` of find_tool; a larger one counts as this.
pub const MAX_FOUND_TOOLS: usize = 50;

/// Returns the definition.
pub(super) fn definition(names: &Names<'_>, config: &Config) -> Value {
    let (name, call) = (&names.find_tool, &names.call_tool);
    let limits = &config.optimizer.limits;
    // Only scripts are written from signatures.
    let (details, signatures) = if names.offered.contains(&OptimTool::ExecuteCode) {
        (&["names", "summary", "full", "signatures"][..], " \"signatures\": Python, for scripts.")
    } else {
        (&["names", "summary", "full"][..], "")
    };
    json!({
        "name": name,
        "title": "Find tools",
        "description": format!(
            "Searches all connected tools, most of which are not listed, for those that can do a described task. Use it \
             first whenever no listed tool fits the task. Returns the best tools in order, each with its name, \
             description and the JSON schema of its parameters. Then call one with {call}. Describe one step of the task \
             per search."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "tool_description": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": limits.description_chars,
                    "description": "What the tool should do, in plain words, e.g. \"see who is following a ticket\"."
                },
                "tool_keywords": {
                    "anyOf": [
                        {"type": "string", "maxLength": limits.keywords_chars},
                        {"type": "array", "items": {"type": "string"}}
                    ],
                    "description": "Optional terms that the tool or its server is likely to contain, e.g. \"jira watchers\"."
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_FOUND_TOOLS,
                    "default": config.optimizer.search.max_tools,
                    "description": "Most tools to return."
                },
                "detail": {
                    "enum": details,
                    "default": "full",
                    "description": format!("How much of each tool to return. \"names\" and \"summary\" are short; call_tool needs no more for simple tools.{signatures}")
                },
                "explain": {
                    "type": "boolean",
                    "default": false,
                    "description": "Also say why each tool was found. Only for diagnosis."
                }
            },
            "required": ["tool_description"]
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "tools": {
                    "type": "array",
                    "description": "Best first.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string", "description": format!("Pass it to {call} as tool_name.")},
                            "backend_id": {"type": "string", "description": "The server that has the tool."},
                            "description": {"type": "string"},
                            "parameters": {"type": "object", "description": "JSON schema of the tool's arguments."},
                            "score": {"type": "number", "minimum": 0, "maximum": 1},
                            "title": {"type": "string"},
                            "annotations": {"type": "object"},
                            "output_schema": {"type": "object"},
                            "signature": {"type": "string"},
                            "explanation": {"type": "object"}
                        },
                        "required": ["name", "backend_id", "score"]
                    }
                },
                "token_metrics": {
                    "type": "object",
                    "properties": {
                        "baseline_tokens": {"type": "integer", "description": "What listing every tool would cost."},
                        "returned_tokens": {"type": "integer", "description": "What this answer costs."},
                        "tokens_saved": {"type": "integer"},
                        "savings_percent": {"type": "number"},
                        "optimizer_tokens": {"type": "integer", "description": "What the definitions of the search tools cost."}
                    },
                    "required": ["baseline_tokens", "returned_tokens", "tokens_saved", "savings_percent", "optimizer_tokens"]
                },
                "search_mode": {"enum": ["hybrid", "semantic", "keyword"]},
                "degraded": {"type": "boolean", "description": "Present when a part of the search was not available."},
                "degraded_reason": {"type": "string"},
                "explain": {"type": "object"}
            },
            "required": ["tools", "token_metrics", "search_mode"]
        },
        "annotations": {"title": "Find tools", "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false}
    })
}
