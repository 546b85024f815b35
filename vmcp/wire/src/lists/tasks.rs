//! Ids of tasks in results, notifications and questions: found, and replaced by the ids that the other side
//! knows; and [`TaskCursor`], a cursor through the tasks of a client.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::value::RawValue;
use vmcp_json::object::{Edit, Object};
use vmcp_json::text;

use crate::lists::cursor;
use crate::message::era::Era;
use crate::message::meta::{META, RELATED_TASK};

/// `taskId`, the key of a task's id.
pub const TASK_ID: &str = "taskId";
/// `task`: in a request of 2025-11-25 the wish for a task, in its result the task.
pub const TASK: &str = "task";
/// `tasks`, the key of the entries of `tasks/list`.
pub const TASKS: &str = "tasks";
/// `result` and `error`: the outcome of a task in its state, by the extension for modern clients.
pub const RESULT: &str = "result";
/// See [`RESULT`].
pub const ERROR: &str = "error";

/// Returns the id of the task that a result of `tools/call` created.
#[must_use]
pub fn created(result: &RawValue, era: Era) -> Option<String> {
    let result = Object::parse(result).ok()?;
    let id = match era {
        Era::Modern => result.get_str(TASK_ID),
        Era::Legacy => Object::parse(result.get(TASK)?).ok()?.get_str(TASK_ID),
    };
    id.map(Cow::into_owned)
}

/// Replaces the ids of tasks in an object: its own, that of its `task`, and that of the task which it is
/// related to. `rename` returns the other side's id; a related task without one is left out. Returns `None`
/// if nothing changes.
pub fn renamed(object: &RawValue, rename: impl Fn(&str) -> Option<String>) -> Option<Box<RawValue>> {
    let read = Object::parse(object).ok()?;
    let mut edit = read.edit();
    if let Some(id) = read.get_str(TASK_ID).and_then(|id| rename(&id)) {
        edit.set(TASK_ID, text::quoted(&id));
    }
    let task = read.text(TASK).and_then(|task| Object::parse_valid(task).ok());
    if let Some(task) = task
        && let Some(id) = task.get_str(TASK_ID).and_then(|id| rename(&id))
    {
        let mut inner = task.edit();
        inner.set(TASK_ID, text::quoted(&id));
        edit.set(TASK, inner.finish().into_cow().into_owned());
    }
    rename_related(&read, &mut edit, rename);
    (!edit.is_unchanged()).then(|| edit.finish().into_raw().ok()).flatten()
}

/// Replaces the id of the task that an object is related to, as [`renamed`] does, and no other.
pub fn related_renamed(object: &RawValue, rename: impl Fn(&str) -> Option<String>) -> Option<Box<RawValue>> {
    let read = Object::parse(object).ok()?;
    let mut edit = read.edit();
    rename_related(&read, &mut edit, rename);
    (!edit.is_unchanged()).then(|| edit.finish().into_raw().ok()).flatten()
}

/// Removes `result` and `error`, which the state of an ended task holds. Returns `None` if the state cannot
/// be read.
pub fn without_outcome(state: &RawValue) -> Option<Box<RawValue>> {
    let read = Object::parse(state).ok()?;
    let mut edit = read.edit();
    edit.remove(RESULT);
    edit.remove(ERROR);
    edit.finish().into_raw().ok()
}

fn rename_related<'a>(object: &Object<'a>, edit: &mut Edit<'_, 'a>, rename: impl Fn(&str) -> Option<String>) {
    let parsed = |object: &Object<'a>, key| object.text(key).and_then(|it| Object::parse_valid(it).ok());
    let Some(meta) = parsed(object, META) else { return };
    if meta.text(RELATED_TASK).is_none() {
        return;
    }
    let mut inner = meta.edit();
    let related = parsed(&meta, RELATED_TASK);
    let renamed = related.and_then(|related| {
        let id = rename(&related.get_str(TASK_ID)?)?;
        let mut task = related.edit();
        task.set(TASK_ID, text::quoted(&id));
        Some(task.finish().into_cow().into_owned())
    });
    match renamed {
        Some(task) => _ = inner.set(RELATED_TASK, task),
        None => _ = inner.remove(RELATED_TASK),
    }
    edit.set(META, inner.finish().into_cow().into_owned());
}

/// A place in the tasks of a client, which are listed in the order in which they began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskCursor {
    /// The number of the last task of the page before.
    pub after: u64,
}

const VERSION: u8 = 2;
/// Differs from the tag of every list, so that the two kinds of cursor are never confused.
const TAG: u8 = b'k';

impl TaskCursor {
    /// Encodes the cursor as it travels: base64url of version, tag and number.
    #[must_use]
    pub fn encode(self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode([&[VERSION, TAG], self.after.to_be_bytes().as_slice()].concat())
    }

    /// Decodes a cursor that [`TaskCursor::encode`] made; `None` for any other text.
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        if text.len() > cursor::MAX_LENGTH {
            return None;
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let after = bytes.strip_prefix(&[VERSION, TAG])?.try_into().ok()?;
        Some(Self { after: u64::from_be_bytes(after) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn a_task_is_found_where_its_era_puts_it() {
        let modern = raw(r#"{"resultType":"task","taskId":"a\"b"}"#);
        let legacy = raw(r#"{"task":{"taskId":"t"}}"#);
        assert_eq!(created(&modern, Era::Modern).as_deref(), Some("a\"b"));
        assert_eq!(created(&legacy, Era::Legacy).as_deref(), Some("t"));
        assert_eq!((created(&legacy, Era::Modern), created(&modern, Era::Legacy)), (None, None));
    }

    #[test]
    fn ids_of_tasks_are_replaced_wherever_a_message_has_them() {
        let rename = |id: &str| (id == "t").then(|| "\"shown".to_owned());
        let all = r#"{"taskId":"t","task":{"ttl":1,"taskId":"t"},"_meta":{"x":1,"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#;
        assert_eq!(
            renamed(&raw(all), rename).unwrap().get(),
            r#"{"taskId":"\"shown","task":{"ttl":1,"taskId":"\"shown"},"_meta":{"x":1,"io.modelcontextprotocol/related-task":{"taskId":"\"shown"}}}"#
        );
        let related = r#"{"taskId":"t","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#;
        assert_eq!(
            related_renamed(&raw(related), rename).unwrap().get(),
            r#"{"taskId":"t","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"\"shown"}}}"#
        );
        let of_another = r#"{"_meta":{"x":1,"io.modelcontextprotocol/related-task":{"taskId":"u"}}}"#;
        assert_eq!(renamed(&raw(of_another), rename).unwrap().get(), r#"{"_meta":{"x":1}}"#);
        for unchanged in [r#"{"taskId":"u"}"#, r#"{"content":[]}"#, "7"] {
            assert!(renamed(&raw(unchanged), rename).is_none(), "{unchanged}");
        }
    }

    #[test]
    fn a_state_loses_its_outcome_and_nothing_else() {
        let without = |state: &str| without_outcome(&raw(state)).map(|state| state.get().to_owned());
        let completed = r#"{"taskId":"t","status":"completed","r\u0065sult":{"content":[]},"error":null}"#;
        assert_eq!(without(completed).as_deref(), Some(r#"{"taskId":"t","status":"completed"}"#));
        assert_eq!(without(r#"{"taskId":"t"}"#).as_deref(), Some(r#"{"taskId":"t"}"#));
        assert_eq!(without("[]"), None);
    }

    #[test]
    fn only_our_own_cursors_are_read() {
        let cursor = TaskCursor { after: 7 };
        assert_eq!(TaskCursor::decode(&cursor.encode()), Some(cursor));
        let other = cursor::Cursor { list: crate::lists::pages::List::Tools, after: "s".into() }.encode();
        for bad in ["", "AA", "?", &other, &"A".repeat(cursor::MAX_LENGTH + 1)] {
            assert_eq!(TaskCursor::decode(bad), None, "{bad}");
        }
    }
}
