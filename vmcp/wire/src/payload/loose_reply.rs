//! Answers of hand-written servers that are almost JSON-RPC: read where their meaning is plain.
//!
//! The strict readers ([`reply`](super::reply), [`Message`](crate::envelope::Message)) come first; this one
//! takes what they refuse.

use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_json::text;

use super::{Payload, Reply};
use crate::message::codes;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An answer that is not quite JSON-RPC.
#[derive(Debug, Clone)]
pub struct LooseReply {
    /// Number of the request; `None` if the answer names none.
    pub id: Option<u64>,
    /// The result or the error; `None` if neither can be read.
    pub reply: Option<Reply>,
}

/// Reads an answer leniently: `jsonrpc` may be missing or another, the id may be a number in quotes or with a
/// fraction of zero, a null counts as absent, and an error is mended as by [`mended_error`]. Returns `None`
/// for a request, a notification, and a value with neither `result` nor `error`.
///
/// ```
/// use vmcp_wire::payload::{Reply, loose_reply};
///
/// let read = loose_reply(br#"{"id":"7","result":{"content":[]},"error":null}"#).unwrap();
/// assert_eq!(read.id, Some(7));
/// assert!(matches!(read.reply, Some(Reply::Result(_))));
/// assert!(loose_reply(br#"{"type":"heartbeat"}"#).is_none());
/// ```
#[must_use]
pub fn loose_reply(bytes: &[u8]) -> Option<LooseReply> {
    let raw: &RawValue = serde_json::from_slice(without_mark(bytes)).ok()?;
    let object = Object::parse(raw).ok()?;
    let present = |key: &str| object.get(key).filter(|value| value.get() != "null");
    if present("method").is_some() || (object.get("result").is_none() && object.get("error").is_none()) {
        return None;
    }
    let result = present("result").filter(|result| text::is_object(result.get()));
    // Frameworks write an empty error beside a result.
    let is_empty = |error: &&RawValue| matches!(error.get(), "\"\"" | "false" | "0" | "{}" | "[]");
    let error = present("error").filter(|error| !(result.is_some() && is_empty(error)));
    let reply = match (error, result) {
        (Some(error), _) => {
            Some(Reply::Error(Payload::from(mended_error(error).unwrap_or_else(|| error.to_owned()))))
        }
        (None, Some(result)) => Some(Reply::Result(result.to_owned().into())),
        (None, None) => None,
    };
    Some(LooseReply { id: present("id").and_then(|id| request_number(id.get())), reply })
}

/// Returns the messages of a JSON-RPC batch (2025-03-26); `None` if the bytes are not a list of objects.
#[must_use]
pub fn batch(bytes: &[u8]) -> Option<Vec<&RawValue>> {
    let bytes = without_mark(bytes).trim_ascii();
    let messages: Vec<&RawValue> = bytes.starts_with(b"[").then(|| serde_json::from_slice(bytes).ok())??;
    let is_batch = !messages.is_empty() && messages.iter().all(|message| text::is_object(message.get()));
    is_batch.then_some(messages)
}

/// Reads the number of a request as servers echo it: `7`, `"7"`, `7.0`.
#[must_use]
pub fn request_number(id: &str) -> Option<u64> {
    let plain = text::unquoted(id);
    let plain = plain.as_deref().unwrap_or(id).trim();
    if let Ok(number) = plain.parse() {
        return Some(number);
    }
    let whole = plain.split_once('.').filter(|(_, fraction)| fraction.bytes().all(|digit| digit == b'0'))?.0;
    whole.parse().ok()
}

/// Returns an error with an integer `code` and a text `message`, which clients insist on; `None` if `error`
/// is one. What the server sent is kept as `data`.
#[must_use]
pub fn mended_error(error: &RawValue) -> Option<Box<RawValue>> {
    let object = Object::parse(error).unwrap_or_default();
    let code = object.text("code").and_then(|code| code.parse::<i64>().ok());
    if let (Some(_), Some(_)) = (code, object.get_str("message")) {
        return None;
    }
    let code = code.or_else(|| request_code(object.text("code")?)).unwrap_or(codes::INTERNAL_ERROR);
    let words = ["message", "detail", "error", "data"].into_iter().find_map(|key| object.get_str(key));
    let words = words.or_else(|| text::unquoted(error.get()));
    let message = words.unwrap_or_else(|| object.text("message").unwrap_or(error.get()).into());
    let mended = format!(r#"{{"code":{code},"message":{},"data":{}}}"#, text::quoted(&message), error.get());
    RawValue::from_string(mended).ok()
}

/// Reads an error code that is written as a text.
fn request_code(code: &str) -> Option<i64> {
    text::unquoted(code)?.parse().ok()
}

fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the id, and the result or the error, of a loose answer.
    fn read(text: &str) -> Option<(Option<u64>, String)> {
        let LooseReply { id, reply } = loose_reply(text.as_bytes())?;
        let reply = match reply {
            Some(Reply::Result(result)) => format!("result {}", result.get()),
            Some(Reply::Error(error)) => format!("error {}", error.get()),
            None => "unreadable".to_owned(),
        };
        Some((id, reply))
    }

    #[test]
    fn answers_with_odd_envelopes_are_read() {
        for text in [
            r#"{"id":7,"result":{"a":1}}"#,
            r#"{"jsonrpc":2.0,"id":7,"result":{"a":1}}"#,
            r#"{"jsonrpc":"2.0","id":"7","result":{"a":1}}"#,
            r#"{"jsonrpc":"2.0","id":7.0,"result":{"a":1},"error":null}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"a":1},"error":""}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":null,"result":{"a":1}}"#,
            "\u{feff} {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":1}}",
        ] {
            assert_eq!(read(text), Some((Some(7), r#"result {"a":1}"#.to_owned())), "{text}");
        }
        assert_eq!(read(r#"{"jsonrpc":"2.0","result":{}}"#), Some((None, "result {}".to_owned())));
        for text in [r#"{"id":7,"result":"text"}"#, r#"{"id":7,"result":null}"#, r#"{"id":7,"result":[1]}"#] {
            assert_eq!(read(text), Some((Some(7), "unreadable".to_owned())), "{text}");
        }
        for text in ["ping", "{}", "[]", r#"{"type":"heartbeat","id":7}"#, r#"{"id":7,"method":"ping"}"#] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn errors_get_a_code_and_a_message() {
        let mended = |error: &str| {
            let raw = RawValue::from_string(error.to_owned()).unwrap();
            mended_error(&raw).map(|error| error.get().to_owned())
        };
        assert_eq!(mended(r#"{"code":-32000,"message":"no","data":1}"#), None);
        for (error, code, message) in [
            (r#""no key""#, -32603, "no key"),
            (r#"{"message":"no key"}"#, -32603, "no key"),
            (r#"{"code":"E42","message":"no key"}"#, -32603, "no key"),
            (r#"{"code":"-32002","message":"no key"}"#, -32002, "no key"),
            (r#"{"code":-32000,"data":"no key"}"#, -32000, "no key"),
            (r#"{"code":-32000,"detail":"no key","data":1}"#, -32000, "no key"),
            (r#"{"code":-32000,"message":{"text":"no key"}}"#, -32000, r#"{"text":"no key"}"#),
            (r#"{"code":5}"#, 5, r#"{"code":5}"#),
            ("[1]", -32603, "[1]"),
        ] {
            let expected = format!(r#"{{"code":{code},"message":{},"data":{error}}}"#, text::quoted(message));
            assert_eq!(mended(error).as_deref(), Some(&*expected), "{error}");
        }
    }

    #[test]
    fn a_batch_is_a_list_of_objects() {
        let count = |text: &str| batch(text.as_bytes()).map(|messages| messages.len());
        assert_eq!(count(" [{\"id\":1}, {\"id\":2}]\n"), Some(2));
        for other in ["[]", "[1]", "{}", "[{}", "[INFO] started"] {
            assert_eq!(count(other), None, "{other}");
        }
    }
}
