//! Definition of set_context.

use serde_json::{Value, json};
use vmcp_config::Config;

use super::{Names, OptimTool};

/// Returns the definition.
pub(super) fn definition(names: &Names<'_>, config: &Config) -> Value {
    let limit = config.optimizer.limits.description_chars;
    json!({
        "name": names.listed(OptimTool::SetContext),
        "title": "Set the context",
        "description": "Says what you are about to do, so that the list of tools and the searches fit it. Call it when the \
                        task changes. If the answer has a context_id, pass it with searches and calls.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "maxLength": limit, "description": "The task in plain words."},
                "intent": {"type": "string", "maxLength": limit, "description": "Optional: what it is for."},
                "context_id": {"type": "string", "description": "Optional: the context to replace."}
            },
            "required": ["query"]
        },
        "annotations": {"title": "Set the context", "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false}
    })
}
