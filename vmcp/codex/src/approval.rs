//! Requests of Codex for an approval, as questions to a person (elicitations of MCP), and their answers.

use serde_json::{Value, json};
use vmcp_config::sanitize::is_unseen;

/// Most characters of a question. A longer one is declined: an approval is for the whole text.
const MAX_QUESTION_CHARS: usize = 4000;

/// A request of Codex that a person answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuestionKind {
    /// `item/commandExecution/requestApproval`.
    Command,
    /// `item/fileChange/requestApproval`.
    FileChange,
    /// `mcpServer/elicitation/request`: a question of an MCP server that Codex uses.
    McpServer,
}

impl QuestionKind {
    pub(crate) fn of_method(method: &str) -> Option<QuestionKind> {
        match method {
            "item/commandExecution/requestApproval" => Some(QuestionKind::Command),
            "item/fileChange/requestApproval" => Some(QuestionKind::FileChange),
            "mcpServer/elicitation/request" => Some(QuestionKind::McpServer),
            _ => None,
        }
    }

    /// Returns the answer that declines.
    pub(crate) fn declined(self) -> Value {
        match self {
            QuestionKind::Command | QuestionKind::FileChange => json!({"decision": "decline"}),
            QuestionKind::McpServer => json!({"action": "decline"}),
        }
    }

    /// Returns the answer that ends the turn, too.
    pub(crate) fn cancelled(self) -> Value {
        match self {
            QuestionKind::Command | QuestionKind::FileChange => json!({"decision": "cancel"}),
            QuestionKind::McpServer => json!({"action": "cancel"}),
        }
    }

    /// Returns the answer to Codex for the result of an elicitation. Anything but a clear yes declines.
    pub(crate) fn answer(self, result: &Value) -> Value {
        let action = result.get("action").and_then(Value::as_str);
        match (self, action) {
            (_, Some("cancel")) => self.cancelled(),
            (QuestionKind::McpServer, Some("accept")) => {
                json!({"action": "accept", "content": result.get("content")})
            }
            (_, Some("accept")) => match result.pointer("/content/decision").and_then(Value::as_str) {
                Some("approve") => json!({"decision": "accept"}),
                Some("approve for the session") => json!({"decision": "acceptForSession"}),
                _ => self.declined(),
            },
            _ => self.declined(),
        }
    }
}

/// Returns the parameters of `elicitation/create` for a request of Codex, or the reason to decline it.
/// `changes` are the announced changes of the item that the request is about.
pub(crate) fn question(
    kind: QuestionKind,
    params: &Value,
    changes: Option<&Value>,
) -> Result<Value, &'static str> {
    if kind == QuestionKind::McpServer {
        return of_mcp_server(params);
    }
    let field = |name: &str| params.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let mut diff_lines = Vec::new();
    let mut lines = vec![match kind {
        QuestionKind::FileChange => match field("grantRoot") {
            Some(root) => {
                format!("Codex asks to write everywhere below {}, and to change files:", shown(root))
            }
            None => "Codex asks to change files:".to_owned(),
        },
        _ => match (field("command"), params.pointer("/networkApprovalContext/host")) {
            (Some(command), _) => format!("Codex asks to run a command: `{}`", shown(command)),
            (None, Some(host)) => format!("Codex asks for the network: {}", shown(&host.to_string())),
            (None, None) => return Err("it names no command"),
        },
    }];
    if kind == QuestionKind::FileChange {
        let changes = changes.and_then(Value::as_array).filter(|changes| !changes.is_empty());
        for change in changes.ok_or("it names no files")? {
            let path = change.get("path").and_then(Value::as_str).ok_or("it names no files")?;
            let what = change.pointer("/kind/type").and_then(Value::as_str).unwrap_or("change");
            lines.push(format!("{} {}", shown(what), shown(path)));
            let target = change.pointer("/kind/move_path").and_then(Value::as_str);
            lines.extend(target.map(|target| format!("move to {}", shown(target))));
            let diff = change.get("diff").and_then(Value::as_str).unwrap_or_default();
            diff_lines.extend([format!("{}:", shown(path)), shown_lines(diff)]);
        }
    }
    lines.extend(field("cwd").map(|cwd| format!("Working directory: {}", shown(cwd))));
    lines.extend(field("reason").map(|reason| format!("Reason given by Codex: {}", shown(reason))));
    let mut message = lines.join("\n");
    if message.chars().count() > MAX_QUESTION_CHARS {
        return Err("it is too long to be shown whole (4000 characters)");
    }
    if !diff_lines.is_empty() {
        let diff = diff_lines.join("\n");
        let is_short = message.chars().count() + diff.chars().count() < MAX_QUESTION_CHARS;
        let diff = if is_short { &*diff } else { "The changes are too long to be shown here." };
        message = format!("{message}\n\n{diff}");
    }
    Ok(json!({
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": {
                "decision": {
                    "type": "string",
                    "title": "Decision",
                    "enum": ["approve", "approve for the session", "decline"],
                },
            },
            "required": ["decision"],
        },
    }))
}

fn of_mcp_server(params: &Value) -> Result<Value, &'static str> {
    let text = |name: &str| params.get(name).and_then(Value::as_str);
    let (Some("form"), Some(message), Some(schema)) =
        (text("mode"), text("message"), params.get("requestedSchema"))
    else {
        return Err("only forms are passed on");
    };
    let server = shown(text("serverName").unwrap_or("unknown"));
    let mut message = format!("The MCP server {server} of Codex asks: {}", shown(message));
    match params.pointer("/_meta/codex_approval_kind") {
        None | Some(Value::Null) => {}
        // Codex itself asks: the message names the tool, and the parameters are beside it.
        Some(Value::String(kind)) if kind == "mcp_tool_call" => {
            if let Some(given) = params.pointer("/_meta/tool_params").filter(|given| !given.is_null()) {
                message.push_str("\nParameters: ");
                message.push_str(&shown(&given.to_string()));
            }
        }
        Some(_) => return Err("vmcp does not answer this kind"),
    }
    if message.chars().count() > MAX_QUESTION_CHARS {
        return Err("it is too long to be shown whole (4000 characters)");
    }
    Ok(json!({"message": message, "requestedSchema": schema}))
}

/// Writes invisible characters, separators of lines and characters that change the direction of text as
/// escapes: a question must look like the text that is approved.
fn shown(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            if c.is_control() || is_unseen(c) { c.escape_default().collect::<Vec<_>>() } else { vec![c] }
        })
        .collect()
}

/// Like [`shown`], with the lines of a diff kept.
fn shown_lines(text: &str) -> String {
    text.lines().map(shown).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_approves() {
        let command = QuestionKind::Command;
        let yes = |decision: &str| json!({"action": "accept", "content": {"decision": decision}});
        assert_eq!(command.answer(&yes("approve")), json!({"decision": "accept"}));
        assert_eq!(command.answer(&yes("approve for the session")), json!({"decision": "acceptForSession"}));
        for unclear in [yes("decline"), yes("other"), json!({"action": "accept"}), json!({}), json!(1)] {
            assert_eq!(command.answer(&unclear), json!({"decision": "decline"}), "{unclear}");
        }
        assert_eq!(command.answer(&json!({"action": "cancel"})), json!({"decision": "cancel"}));
    }

    #[test]
    fn a_question_shows_the_whole_command_and_hides_nothing() {
        let params = json!({"command": "rm -rf x\u{202e}\n", "cwd": "/w", "reason": "because"});
        let asked = question(QuestionKind::Command, &params, None).unwrap();
        let message = asked["message"].as_str().unwrap();
        assert!(message.contains("`rm -rf x\\u{202e}\\n`") && message.contains("/w"), "{message}");
        let long = json!({"command": "x".repeat(4001)});
        assert!(question(QuestionKind::Command, &long, None).is_err());
        assert!(question(QuestionKind::Command, &json!({}), None).is_err());
    }

    #[test]
    fn unseen_characters_are_written_as_escapes() {
        for unseen in ['\u{2028}', '\u{2029}', '\u{61c}', '\u{ad}', '\u{e0000}', '\u{e007f}', '\u{202e}'] {
            assert_eq!(shown(&format!("a{unseen}b")), format!("a{}b", unseen.escape_default()));
        }
        assert_eq!(shown("Grüße, 日本 😀"), "Grüße, 日本 😀");
    }

    #[test]
    fn a_call_of_another_mcp_server_is_approved_with_its_parameters() {
        let asked = |meta: Value| {
            let schema = json!({"type": "object", "properties": {}});
            let params = json!({
                "mode": "form", "serverName": "files", "message": "Allow remove?", "requestedSchema": schema,
                "_meta": meta,
            });
            question(QuestionKind::McpServer, &params, None)
        };
        let call =
            asked(json!({"codex_approval_kind": "mcp_tool_call", "tool_params": {"path": "/w\u{202e}"}}));
        let expected =
            "The MCP server files of Codex asks: Allow remove?\nParameters: {\"path\":\"/w\\u{202e}\"}";
        assert_eq!(call.unwrap()["message"], expected);
        let long = json!({"codex_approval_kind": "mcp_tool_call", "tool_params": {"path": "x".repeat(4000)}});
        assert!(asked(long).is_err(), "parameters count");
        for other in [json!("tool_suggestion"), json!(1)] {
            let reason = asked(json!({"codex_approval_kind": other})).unwrap_err();
            assert_eq!(reason, "vmcp does not answer this kind");
        }
        assert!(asked(Value::Null).is_ok(), "a question of the server itself");
    }

    #[test]
    fn a_change_of_files_names_them() {
        let changes = json!([{"path": "/w/a", "kind": {"type": "add"}, "diff": "+a"}]);
        let asked = question(QuestionKind::FileChange, &json!({}), Some(&changes)).unwrap();
        assert_eq!(asked["message"], "Codex asks to change files:\nadd /w/a\n\n/w/a:\n+a");
        let moved = json!([{"path": "/w/a", "kind": {"type": "update", "move_path": "/x/b"}, "diff": ""}]);
        let asked = question(QuestionKind::FileChange, &json!({}), Some(&moved)).unwrap();
        let message = asked["message"].as_str().unwrap();
        assert!(message.starts_with("Codex asks to change files:\nupdate /w/a\nmove to /x/b\n"), "{message}");
        let long = json!([{"path": "/w/a", "kind": {"type": "add"}, "diff": "+".repeat(5000)}]);
        let asked = question(QuestionKind::FileChange, &json!({}), Some(&long)).unwrap();
        assert!(asked["message"].as_str().unwrap().ends_with("too long to be shown here."));
        assert!(
            question(QuestionKind::FileChange, &json!({}), None).is_err(),
            "unknown files are not approved"
        );
    }
}
