//! Patches of webhooks (RFC 6902), bounded: a `copy` doubles what it copies, and a value can be nested into
//! itself, so that a short patch could fill the memory or the stack.

use json_patch::{PatchOperation, jsonptr::Pointer};
use serde_json::Value;

use super::MAX_QUESTION_BYTES;

/// Most operations of a patch.
const MAX_OPERATIONS: usize = 256;
/// Deepest nesting of a patched document: a parsed text has at most 128 levels, and stands in a message.
const MAX_DEPTH: usize = 160;
/// Key of a result's type.
const RESULT_TYPE: &str = "resultType";
/// The container that patches of a request may change.
const REQUEST: &str = "/mcp_request/";
/// The container that patches of an answer may change.
const RESPONSE: &str = "/mcp_response/";

/// Applies a patch to a request. Returns the new arguments, `None` if they stay as they are; fails if the
/// patch changes something else.
pub(super) fn arguments(document: Value, patch: &[PatchOperation]) -> Result<Option<Value>, String> {
    let (mut before, mut after) = (document.clone(), document);
    apply(&mut after, patch, REQUEST)?;
    let take = |document: &mut Value| {
        let params = document.get_mut("mcp_request")?.get_mut("params")?.as_object_mut()?;
        params.remove("arguments")
    };
    let (old, new) = (take(&mut before), take(&mut after));
    if before != after {
        return Err("it may change `/mcp_request/params/arguments` only".to_owned());
    }
    let new = new.filter(Value::is_object).ok_or("the arguments that it leaves are no object")?;
    Ok(Some(new).filter(|new| Some(new) != old.as_ref()))
}

/// Applies a patch to an answer. Returns the new result or error, `None` if it stays as it is; fails if the
/// patch changes something else, or leaves no answer to a call of a tool.
pub(super) fn answer(document: Value, patch: &[PatchOperation]) -> Result<Option<Value>, String> {
    let (mut before, mut after) = (document.clone(), document);
    apply(&mut after, patch, RESPONSE)?;
    let is_result = before.pointer("/mcp_response/result").is_some();
    let key = if is_result { "result" } else { "error" };
    let take = |document: &mut Value| document.get_mut("mcp_response")?.as_object_mut()?.remove(key);
    let (old, new) = (take(&mut before), take(&mut after));
    if before != after {
        return Err(format!("it may change `/mcp_response/{key}` only"));
    }
    let mut new = new.unwrap_or_default();
    keep_type(old.as_ref(), &mut new);
    let fits = if is_result {
        new.is_object() && new.get("content").is_some_and(Value::is_array)
    } else {
        new.get("code").is_some_and(Value::is_i64) && new.get("message").is_some_and(Value::is_string)
    };
    if !fits {
        let wanted =
            if is_result { "result with a list `content`" } else { "error with `code` and `message`" };
        return Err(format!("it leaves no {wanted}"));
    }
    Ok(Some(new).filter(|new| Some(new) != old.as_ref()))
}

/// Leaves a result of the type that it had: a complete one does not become a question or a task.
fn keep_type(old: Option<&Value>, new: &mut Value) {
    let Some(new) = new.as_object_mut() else { return };
    match old.and_then(|old| old.get(RESULT_TYPE)) {
        Some(kind) => new.insert(RESULT_TYPE.to_owned(), kind.clone()),
        None => new.remove(RESULT_TYPE),
    };
}

fn apply(document: &mut Value, patch: &[PatchOperation], container: &str) -> Result<(), String> {
    if patch.len() > MAX_OPERATIONS {
        return Err(format!("{} operations, and at most {MAX_OPERATIONS} are allowed", patch.len()));
    }
    for (index, operation) in patch.iter().enumerate() {
        let from = match operation {
            PatchOperation::Copy(copy) => Some(&copy.from),
            PatchOperation::Move(moved) => Some(&moved.from),
            _ => None,
        };
        let is_outside = |path: &Pointer| !path.as_str().starts_with(container);
        if is_outside(operation.path()) || from.is_some_and(|from| is_outside(from)) {
            return Err(format!("operation {index} reaches outside of `{container}`"));
        }
        let one = std::slice::from_ref(operation);
        json_patch::patch(document, one).map_err(|error| format!("operation {index}: {}", error.kind))?;
        if matches!(operation, PatchOperation::Test(_) | PatchOperation::Remove(_)) {
            continue;
        }
        if !is_within_depth(document, MAX_DEPTH) {
            return Err(format!("operation {index} nests deeper than {MAX_DEPTH}"));
        }
        if matches!(operation, PatchOperation::Copy(_)) && size(document) > MAX_QUESTION_BYTES {
            return Err(format!("operation {index} makes more than 8 MiB"));
        }
    }
    Ok(())
}

/// Recurses at most `depth` deep.
fn is_within_depth(value: &Value, depth: usize) -> bool {
    let Some(below) = depth.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| is_within_depth(item, below)),
        Value::Object(members) => members.values().all(|member| is_within_depth(member, below)),
        _ => true,
    }
}

/// Returns the bytes of a document as JSON text.
fn size(document: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
            self.0 += piece.len();
            Ok(piece.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Writing to a counter cannot fail.
    let _ = serde_json::to_writer(&mut count, document);
    count.0
}
