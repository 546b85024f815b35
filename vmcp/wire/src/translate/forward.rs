//! Forwards an answer that needs nothing but additions as the bytes that came: no parse, no copy.

use vmcp_json::byte_rope::ByteRope;

use super::ResultPlan;
use crate::message::era::Era;
use crate::message::methods;
use crate::message::{keys::CACHE_SCOPE, keys::RESULT_TYPE, keys::TTL_MS};
use crate::message::{meta::META, meta::SERVER_INFO};
use crate::payload::{Key, Received};

/// Returns the received bytes with the missing keys inserted; `None` if more must change, which
/// [`super::result()`] does.
#[must_use]
pub fn forward(method: &str, received: &Received, plan: &ResultPlan<'_>) -> Option<ByteRope> {
    let found = received.found();
    match (plan.from, plan.to) {
        (Era::Legacy, Era::Legacy) => return Some(received.with([])),
        (_, Era::Modern) if !found.has(Key::ResultType) => {}
        (Era::Modern, Era::Modern) if received.text(Key::ResultType)? == "\"complete\"" => {}
        _ => return None,
    }
    let mut missing = Vec::new();
    let mut want = |key, name: &str, value: &dyn std::fmt::Display| {
        if !found.has(key) {
            missing.push(format!("\"{name}\":{value}"));
        }
    };
    want(Key::ResultType, RESULT_TYPE, &"\"complete\"");
    if methods::is_cacheable(method) {
        want(Key::TtlMs, TTL_MS, &plan.hints.ttl_ms);
        want(Key::CacheScope, CACHE_SCOPE, &format_args!("\"{}\"", plan.hints.scope.as_str()));
    }
    let mut inner = None;
    if let Some(info) = plan.server_info.filter(|_| !found.has(Key::ServerInfo)) {
        let info = format!("\"{SERVER_INFO}\":{info}");
        match found.range(Key::Meta) {
            None => missing.push(format!("\"{META}\":{{{info}}}")),
            Some(_) if !found.is_object(Key::Meta) => return None,
            Some(meta) => inner = Some((meta.end - 1, joined(info, found.has_entries(Key::Meta)))),
        }
    }
    let end = found.range(Key::Result)?.end - 1;
    let outer =
        (!missing.is_empty()).then(|| (end, joined(missing.join(","), found.has_entries(Key::Result))));
    Some(received.with(inner.into_iter().chain(outer)))
}

/// Joins entries to the end of an object, behind a comma if the object has others.
fn joined(entries: String, has_entries: bool) -> String {
    if has_entries { format!(",{entries}") } else { entries }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{Reply, Scanner, reply};
    use crate::translate::Hints;

    /// Forwards a result and asserts that [`super::super::result()`] makes the same of it.
    fn forwarded(method: &str, result: &str, from: Era, to: Era) -> Option<String> {
        let message = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        let mut pieces = ByteRope::new();
        let mut scanner = Scanner::default();
        for piece in message.as_bytes().chunks(5) {
            scanner.push(piece).unwrap();
            pieces.push(piece.to_vec());
        }
        let Ok(Reply::Result(payload)) = reply(pieces, scanner.finish().unwrap(), "1") else {
            panic!("a result")
        };
        let info = (to == Era::Modern).then_some(r#"{"name":"us"}"#);
        let plan = ResultPlan { from, to, hints: Hints::default(), server_info: info, request_state: None };
        let forwarded = forward(method, payload.received().unwrap(), &plan)?;
        let text = String::from_utf8(forwarded.into_bytes().into()).unwrap();
        let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let edited = crate::translate::result(method, &payload, &plan).unwrap().into_cow();
        assert_eq!(parsed(&text), parsed(&edited));
        Some(text)
    }

    #[test]
    fn nothing_is_added_to_what_has_everything() {
        let (legacy, modern) = (Era::Legacy, Era::Modern);
        let whole =
            r#"{"content":[], "resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{}}}"#;
        assert_eq!(forwarded("tools/call", whole, modern, modern).as_deref(), Some(whole));
        let any = r#"{ "x":1e40 ,"resultType":7}"#;
        assert_eq!(forwarded("tools/call", any, legacy, legacy).as_deref(), Some(any));
    }

    #[test]
    fn what_is_missing_is_added_at_the_end() {
        let (legacy, modern) = (Era::Legacy, Era::Modern);
        let bare = forwarded("tools/call", "{}", legacy, modern).unwrap();
        assert_eq!(
            bare,
            r#"{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"us"}}}"#
        );
        let read = forwarded("resources/read", r#"{"contents":[] }"#, modern, modern).unwrap();
        assert!(read.starts_with(r#"{"contents":[] ,"resultType":"complete","ttlMs":"#), "{read}");
        for meta in [r#"{"a":1}"#, "{ }"] {
            let result = format!(r#"{{"_meta":{meta},"resultType":"complete"}}"#);
            let result = forwarded("tools/call", &result, modern, modern).unwrap();
            assert!(result.ends_with(
                r#""io.modelcontextprotocol/serverInfo":{"name":"us"}},"resultType":"complete"}"#
            ));
        }
    }

    #[test]
    fn what_must_change_otherwise_is_left_to_the_translation() {
        let (legacy, modern) = (Era::Legacy, Era::Modern);
        assert_eq!(forwarded("tools/call", r#"{"resultType":"complete"}"#, modern, legacy), None);
        assert_eq!(forwarded("tools/call", r#"{"resultType":7}"#, legacy, modern), None);
        assert_eq!(forwarded("tools/call", r#"{"resultType":"input_required"}"#, modern, modern), None);
        assert_eq!(forwarded("tools/call", r#"{"_meta":null}"#, modern, modern), None);
    }
}
