//! Definition of call_hook.

use serde_json::{Value, json};

use super::super::{Names, OptimTool};

/// Returns the definition.
pub(in crate::optim::definitions) fn definition(names: &Names<'_>) -> Value {
    json!({
        "name": names.listed(OptimTool::CallHook),
        "title": "Report a session hook",
        "description": "Reports a hook of this client's session, such as SessionStart, UserPromptSubmit, Stop or \
                        SessionEnd. A start with params.source clear gets the summary of the session before.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "hook_type": {"type": "string", "description": "Type of the hook."},
                "params": {
                    "type": "object",
                    "description": "session_id, cwd, source (of a start), prompt, transcript, tool_name."
                },
                "source": {"type": "string", "description": "Optional: name of the client."}
            },
            "required": ["hook_type"]
        },
        "annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": false, "openWorldHint": false}
    })
}
