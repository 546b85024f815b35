//! [`TurnRecord`]: everything that is known of a turn, within bounds.

use serde_json::{Value, json};

/// Most bytes of the items of one turn, as JSON; further items are left out and counted.
const MAX_ITEM_BYTES: usize = 1024 * 1024;
/// Most items of one turn.
const MAX_ITEMS: usize = 1000;
/// Most bytes of the last message of the agent; a longer one is cut.
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;
/// Most notes about refused questions.
const MAX_NOTES: usize = 50;
/// Announced changes that are kept; the oldest goes first.
const MAX_ANNOUNCED: usize = 8;
/// Most bytes of the announced changes of one item; larger ones are dropped, and their question is declined.
const MAX_ANNOUNCED_BYTES: usize = 256 * 1024;
/// Most characters of a progress message.
const MAX_PROGRESS_CHARS: usize = 160;

/// A turn of a thread.
#[derive(Debug, Default)]
pub(crate) struct TurnRecord {
    /// Empty until Codex has confirmed the thread.
    pub(crate) thread_id: String,
    pub(crate) turn_id: Option<String>,
    pub(crate) is_continuation: bool,
    /// A turn of the thread that ended before the id of this one was known.
    pub(crate) early_end: Option<Value>,
    items: Vec<Value>,
    item_bytes: usize,
    left_out: usize,
    response: String,
    usage: Value,
    notes: Vec<String>,
    /// Announced changes of files, by item, the newest last.
    announced: Vec<(String, Value)>,
}

impl TurnRecord {
    /// Makes the record of a turn that has not begun.
    pub(crate) fn new(is_continuation: bool) -> TurnRecord {
        TurnRecord { is_continuation, ..TurnRecord::default() }
    }

    /// Takes an item that has begun: the changes of files that a question may be about.
    pub(crate) fn announce(&mut self, item: &Value) {
        let (Some(id), Some(changes)) = (item.get("id").and_then(Value::as_str), item.get("changes")) else {
            return;
        };
        if changes.to_string().len() > MAX_ANNOUNCED_BYTES {
            return;
        }
        if self.announced.len() >= MAX_ANNOUNCED {
            self.announced.remove(0);
        }
        self.announced.push((id.to_owned(), changes.clone()));
    }

    /// Returns the announced changes of an item.
    pub(crate) fn changes(&self, item: &str) -> Option<&Value> {
        self.announced.iter().rev().find(|(id, _)| id == item).map(|(_, changes)| changes)
    }

    /// Takes a completed item. The last message of the agent is the response.
    pub(crate) fn take_item(&mut self, item: &Value) {
        self.announced.retain(|(id, _)| item.get("id").and_then(Value::as_str) != Some(id));
        if let Some("agentMessage" | "agent_message") = item_type(item)
            && let Some(text) = item.get("text").and_then(Value::as_str)
        {
            text.get(..text.floor_char_boundary(MAX_RESPONSE_BYTES))
                .unwrap_or(text)
                .clone_into(&mut self.response);
        }
        let bytes = item.to_string().len();
        if self.items.len() >= MAX_ITEMS || self.item_bytes.saturating_add(bytes) > MAX_ITEM_BYTES {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        self.item_bytes = self.item_bytes.saturating_add(bytes);
        self.items.push(item.clone());
    }

    /// Takes the token usage, the latest one counts.
    pub(crate) fn take_usage(&mut self, usage: &Value) {
        self.usage = usage.clone();
    }

    /// Adds a note about a question that was answered without a person.
    pub(crate) fn note(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(note);
        }
    }

    /// Returns the result of the tool; `error` is the reason for which the turn failed.
    pub(crate) fn result(&self, error: Option<&str>) -> Value {
        let mut result = json!({
            "success": error.is_none(),
            "thread_id": self.thread_id,
            "session_id": null,
            "turn_id": self.turn_id,
            "response": self.response,
            "items": self.items,
            "usage": self.usage,
            "is_continuation": self.is_continuation,
        });
        if let Some(object) = result.as_object_mut() {
            if let Some(error) = error {
                object.insert("error".to_owned(), error.into());
            }
            if self.left_out > 0 {
                object.insert("items_left_out".to_owned(), self.left_out.into());
            }
            if !self.notes.is_empty() {
                object.insert("declined".to_owned(), json!(self.notes));
            }
        }
        result
    }
}

/// Returns the words of a progress notification about an item; `None` for an item that tells a person
/// nothing.
pub(crate) fn progress_words(item: &Value) -> Option<String> {
    let field = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
    let words = match item_type(item)? {
        "commandExecution" => format!("runs {}", field("command")),
        "fileChange" => "changes files".to_owned(),
        "mcpToolCall" => format!("calls {}", field("tool")),
        "webSearch" => "searches the web".to_owned(),
        "reasoning" => "thinks".to_owned(),
        "agentMessage" | "agent_message" => "writes".to_owned(),
        _ => return None,
    };
    let plain = words.chars().map(|c| if c.is_control() { ' ' } else { c });
    Some(plain.take(MAX_PROGRESS_CHARS).collect())
}

fn item_type(item: &Value) -> Option<&str> {
    item.get("type").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_message_is_the_response_in_either_spelling() {
        let mut turn = TurnRecord::default();
        turn.take_item(&json!({"type": "agentMessage", "text": "first"}));
        turn.take_item(&json!({"type": "agent_message", "text": "last"}));
        turn.take_item(&json!({"type": "reasoning"}));
        let result = turn.result(None);
        assert_eq!((&result["response"], &result["success"]), (&json!("last"), &json!(true)));
        assert_eq!(result["items"].as_array().unwrap().len(), 3);
        assert_eq!(turn.result(Some("why"))["error"], "why");
    }

    #[test]
    fn items_beyond_the_limit_are_counted_and_left_out() {
        let mut turn = TurnRecord::default();
        let large = json!({"type": "commandExecution", "aggregatedOutput": "x".repeat(MAX_ITEM_BYTES / 2)});
        for _ in 0..3 {
            turn.take_item(&large);
        }
        let result = turn.result(None);
        assert_eq!((result["items"].as_array().unwrap().len(), &result["items_left_out"]), (1, &json!(2)));
    }

    #[test]
    fn announced_changes_are_kept_within_bounds_until_their_item_is_complete() {
        let mut turn = TurnRecord::default();
        turn.announce(&json!({"id": "large", "changes": ["x".repeat(MAX_ANNOUNCED_BYTES)]}));
        assert_eq!(turn.changes("large"), None);
        for id in 0..=MAX_ANNOUNCED {
            turn.announce(&json!({"id": id.to_string(), "changes": [id]}));
        }
        assert_eq!((turn.changes("0"), turn.changes("8")), (None, Some(&json!([8]))));
        turn.take_item(&json!({"id": "8", "type": "fileChange"}));
        assert_eq!(turn.changes("8"), None);
    }

    #[test]
    fn progress_has_no_control_characters() {
        let item = json!({"type": "commandExecution", "command": "a\n\u{1b}[2Jb"});
        assert_eq!(progress_words(&item).unwrap(), "runs a  [2Jb");
        assert_eq!(progress_words(&json!({"type": "userMessage"})), None);
    }
}
