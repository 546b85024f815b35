//! Patches of webhooks (RFC 6902), bounded: a `copy` doubles what it copies, and a value can be nested into
//! itself, so that a short patch could fill the memory or the stack.

use json_patch::{PatchOperation, jsonptr::Pointer};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// Most operations of a patch.
const MAX_OPERATIONS: usize = 256;
/// Bytes, as JSON text, of the values that a patch copies and moves, together.
const MAX_MOVED_BYTES: usize = 1024 * 1024;
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
    let (before, new) = patched(document, patch, (REQUEST, "/mcp_request/params", "arguments"))?;
    let new = new.filter(Value::is_object).ok_or("the arguments that it leaves are no object")?;
    Ok(Some(new).filter(|new| digest(new) != before))
}

/// Applies a patch to an answer. Returns the new result or error, `None` if it stays as it is; fails if the
/// patch changes something else, or leaves no answer to a call of a tool.
pub(super) fn answer(document: Value, patch: &[PatchOperation]) -> Result<Option<Value>, String> {
    let response = document.get("mcp_response");
    let is_result = response.is_some_and(|response| response.get("result").is_some());
    let key = if is_result { "result" } else { "error" };
    let kind = response.and_then(|response| response.get(key)?.get(RESULT_TYPE)).cloned();
    let (before, new) = patched(document, patch, (RESPONSE, "/mcp_response", key))?;
    let mut new = new.unwrap_or_default();
    keep_type(kind, &mut new);
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
    Ok(Some(new).filter(|new| digest(new) != before))
}

/// Applies a patch that may change one member: `key` of the object at `parent`. Returns the digest of the
/// member as it was, and the member as it is.
fn patched(
    mut document: Value,
    patch: &[PatchOperation],
    (container, parent, key): (&str, &str, &str),
) -> Result<([u8; 32], Option<Value>), String> {
    let old = members(&mut document, parent).and_then(|members| members.remove(key)).unwrap_or_default();
    let before = digest(&old);
    // Copied without the member, which may have megabytes.
    let rest = document.clone();
    if let Some(members) = members(&mut document, parent) {
        members.insert(key.to_owned(), old);
    }
    apply(&mut document, patch, container)?;
    let new = members(&mut document, parent).and_then(|members| members.remove(key));
    if document == rest { Ok((before, new)) } else { Err(format!("it may change `{parent}/{key}` only")) }
}

/// Returns the members of the object at a pointer.
fn members<'a>(document: &'a mut Value, pointer: &str) -> Option<&'a mut Map<String, Value>> {
    document.pointer_mut(pointer)?.as_object_mut()
}

/// Leaves a result of the type that it had: a complete one does not become a question or a task.
fn keep_type(kind: Option<Value>, new: &mut Value) {
    let Some(new) = new.as_object_mut() else { return };
    match kind {
        Some(kind) => new.insert(RESULT_TYPE.to_owned(), kind),
        None => new.remove(RESULT_TYPE),
    };
}

fn apply(document: &mut Value, patch: &[PatchOperation], container: &str) -> Result<(), String> {
    if patch.len() > MAX_OPERATIONS {
        return Err(format!("{} operations, and at most {MAX_OPERATIONS} are allowed", patch.len()));
    }
    let mut moved_bytes = 0;
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
        // Only the value that is put into the document is looked at: all of it once for each operation would
        // cost too much.
        let value = match operation {
            PatchOperation::Add(add) => Some(&add.value),
            PatchOperation::Replace(replace) => Some(&replace.value),
            _ => from.and_then(|from| document.pointer(from.as_str())),
        };
        if let Some(value) = value {
            let depth = MAX_DEPTH.checked_sub(operation.path().as_str().matches('/').count());
            if !depth.is_some_and(|depth| is_within_depth(value, depth)) {
                return Err(format!("operation {index} nests deeper than {MAX_DEPTH}"));
            }
            moved_bytes += if from.is_some() { size(value) } else { 0 };
            if moved_bytes > MAX_MOVED_BYTES {
                return Err(format!("operation {index}: more than 1 MiB is copied and moved"));
            }
        }
        let one = std::slice::from_ref(operation);
        json_patch::patch(document, one).map_err(|error| format!("operation {index}: {}", error.kind))?;
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

/// Returns the bytes of a value as JSON text.
fn size(value: &Value) -> usize {
    let mut bytes = 0;
    for_each_piece(value, |piece| bytes += piece.len());
    bytes
}

/// Returns the SHA-256 of a value as JSON text.
fn digest(value: &Value) -> [u8; 32] {
    let mut hash = Sha256::new();
    for_each_piece(value, |piece| hash.update(piece));
    hash.finalize().into()
}

/// Hands a value's JSON text to a function, piece by piece.
fn for_each_piece(value: &Value, take: impl FnMut(&[u8])) {
    struct Pieces<F>(F);
    impl<F: FnMut(&[u8])> std::io::Write for Pieces<F> {
        fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
            (self.0)(piece);
            Ok(piece.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(Pieces(take), value);
}
