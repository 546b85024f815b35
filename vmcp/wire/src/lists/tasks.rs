//! Finds the ids of tasks in results; and [`TaskCursor`], a cursor through the tasks of several backends.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::value::RawValue;
use vmcp_json::object::Object;

use crate::lists::cursor;
use crate::message::era::Era;

/// `taskId`, the key of a task's id.
pub const TASK_ID: &str = "taskId";
/// `task`: in a request of 2025-11-25 the wish for a task, in its result the task.
pub const TASK: &str = "task";
/// `tasks`, the key of the entries of `tasks/list`.
pub const TASKS: &str = "tasks";

/// Returns the id of the task that a result of `tools/call` created.
#[must_use]
pub fn created(result: &RawValue, era: Era) -> Option<String> {
    let result = Object::parse(result).ok()?;
    let id = match era {
        Era::Modern => result.get_str(TASK_ID),
        Era::Legacy => Object::parse(result.get(TASK)?).ok()?.get_str(TASK_ID),
    };
    id.map(std::borrow::Cow::into_owned)
}

/// Returns the ids of the tasks on a page of `tasks/list`.
#[must_use]
pub fn listed(page: &Object<'_>) -> Vec<String> {
    let tasks: Vec<&RawValue> =
        page.text(TASKS).and_then(|tasks| serde_json::from_str(tasks).ok()).unwrap_or_default();
    let id = |task: &RawValue| Some(Object::parse(task).ok()?.get_str(TASK_ID)?.into_owned());
    tasks.into_iter().filter_map(id).collect()
}

/// A place in the tasks of several backends, which are listed one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskCursor {
    /// The backend whose tasks come next.
    pub server: String,
    /// The backend's own cursor; `None` for its first page.
    pub cursor: Option<String>,
}

const VERSION: u8 = 1;
/// Differs from the tag of every list, so that the two kinds of cursor are never confused.
const TAG: u8 = b'k';

impl TaskCursor {
    /// Encodes the cursor as it travels: base64url of version, tag, backend and its own cursor.
    #[must_use]
    pub fn encode(&self) -> String {
        // A zero byte separates: the name of a backend has none.
        let mut bytes = vec![VERSION, TAG];
        bytes.extend_from_slice(self.server.as_bytes());
        if let Some(cursor) = &self.cursor {
            bytes.push(0);
            bytes.extend_from_slice(cursor.as_bytes());
        }
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Decodes a cursor that [`TaskCursor::encode`] made; `None` for any other text.
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        if text.len() > cursor::MAX_LENGTH {
            return None;
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let text = std::str::from_utf8(bytes.strip_prefix(&[VERSION, TAG])?).ok()?;
        let (server, cursor) = match text.split_once('\0') {
            Some((server, cursor)) => (server, Some(cursor.to_owned())),
            None => (text, None),
        };
        Some(Self { server: server.to_owned(), cursor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_found_where_its_era_puts_it() {
        let created = |text: &str, era| created(&RawValue::from_string(text.to_owned()).unwrap(), era);
        let modern = r#"{"resultType":"task","taskId":"a\"b"}"#;
        let legacy = r#"{"task":{"taskId":"t"}}"#;
        assert_eq!(created(modern, Era::Modern).as_deref(), Some("a\"b"));
        assert_eq!(created(legacy, Era::Legacy).as_deref(), Some("t"));
        assert_eq!((created(legacy, Era::Modern), created(modern, Era::Legacy)), (None, None));
        let page = Object::parse_str(r#"{"tasks":[{"taskId":"1"},7,{"taskId":"2"}]}"#).unwrap();
        assert_eq!(listed(&page), ["1", "2"]);
        assert!(listed(&Object::default()).is_empty());
    }

    #[test]
    fn only_our_own_cursors_are_read() {
        for cursor in [None, Some(String::new()), Some("\0größe".to_owned())] {
            let cursor = TaskCursor { server: "s".into(), cursor };
            assert_eq!(TaskCursor::decode(&cursor.encode()), Some(cursor));
        }
        let other = cursor::Cursor { list: crate::lists::pages::List::Tools, after: "s".into() }.encode();
        for bad in ["", "AA", "?", &other, &"A".repeat(cursor::MAX_LENGTH + 1)] {
            assert_eq!(TaskCursor::decode(bad), None, "{bad}");
        }
    }
}
