//! Definitions of the tools, as `tools/list` returns them.

use serde_json::{Value, json};

use crate::call_arguments::{DEFAULT_THREADS, MAX_THREADS};

/// Tool that runs a turn.
pub(crate) const CODEX: &str = "codex";
/// Tool that lists threads.
pub const LIST_THREADS: &str = "codex_list_threads";
/// Tool that archives a thread.
pub(crate) const ARCHIVE_THREAD: &str = "codex_archive_thread";
/// Names of all tools.
pub const TOOLS: [&str; 3] = [CODEX, LIST_THREADS, ARCHIVE_THREAD];

/// Returns the result of `tools/list`. `dangerFullAccess` is offered only where `allow_dangerous`.
pub(crate) fn list(allow_dangerous: bool) -> Value {
    let mut sandboxes = vec!["readOnly", "workspaceWrite"];
    if allow_dangerous {
        sandboxes.push("dangerFullAccess");
    }
    let codex = json!({
        "name": CODEX,
        "title": "Codex",
        "description": "Give the coding agent Codex a task in a working directory, or continue one of its \
            threads. Returns its answer, the items of the turn (messages, commands, file changes) and the \
            token usage.",
        "inputSchema": object(&json!({
            "prompt": {"type": "string", "description": "Task or message for Codex."},
            "thread_id": {"type": "string", "description": "Thread to continue. Default: a new one."},
            "cwd": {
                "type": "string",
                "description": "Working directory, within the configured workspaces. Default: the first one.",
            },
            "model": {"type": "string", "description": "Model, instead of the configured one."},
            "sandbox": {
                "type": "string",
                "enum": sandboxes,
                "description": "Rights of commands. Default: readOnly.",
            },
            "approval_policy": {
                "type": "string",
                "enum": ["never", "onRequest", "unlessTrusted", "always"],
                "description": "Moments at which Codex asks the user. Default: onRequest.",
            },
        }), &["prompt"]),
        "annotations": {"readOnlyHint": false, "destructiveHint": true, "openWorldHint": true},
    });
    let list_threads = json!({
        "name": LIST_THREADS,
        "title": "Threads of Codex",
        "description": "List the conversation threads of the coding agent Codex, the newest first.",
        "inputSchema": object(&json!({
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_THREADS,
                "description": format!("Most threads of a page. Default: {DEFAULT_THREADS}."),
            },
            "cursor": {"type": "string", "description": "The `next_cursor` of the page before."},
        }), &[]),
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    });
    let archive_thread = json!({
        "name": ARCHIVE_THREAD,
        "title": "Archive a thread of Codex",
        "description": "Archive a conversation thread of the coding agent Codex, so that lists leave it out.",
        "inputSchema": object(&json!({
            "thread_id": {"type": "string", "description": "Thread to archive."},
        }), &["thread_id"]),
        "annotations": {"readOnlyHint": false, "destructiveHint": false, "openWorldHint": false},
    });
    json!({"tools": [codex, list_threads, archive_thread]})
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_access_is_offered_only_where_it_is_allowed() {
        let offered =
            |allowed| list(allowed)["tools"][0]["inputSchema"]["properties"]["sandbox"]["enum"].clone();
        assert_eq!(offered(false), json!(["readOnly", "workspaceWrite"]));
        assert_eq!(offered(true), json!(["readOnly", "workspaceWrite", "dangerFullAccess"]));
    }
}
