//! Forwards a complete result as the bytes that came, with cuts and insertions: no parse, no copy.

use vmcp_json::byte_rope::ByteRope;

use super::changes::ResultRules;
use super::{ResultPlan, payload_type_of};
use crate::payload::{Key, Received};

/// Returns the received bytes with the changes that the client's era needs; `None` if the result is not
/// complete, or has data that must become text, which [`super::result()`] handles.
#[must_use]
pub fn forward(method: &str, received: &Received, plan: &ResultPlan<'_>) -> Option<ByteRope> {
    let rules = ResultRules::new(method, plan);
    let found = received.found();
    // Data that a legacy client cannot take may have to become text.
    if rules.removes(found, Key::StructuredContent) && found.has(Key::StructuredContent) {
        return None;
    }
    if found.has(Key::ResultType) && !rules.allow(&payload_type_of(received)) {
        return None;
    }
    Some(received.with(rules.changes(found, |_| true)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::era::Era;
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
    fn what_a_legacy_client_does_not_know_is_cut_out() {
        let legacy =
            |method: &str, result: &str| forwarded(method, result, Era::Modern, Era::Legacy).unwrap();
        let info = r#""io.modelcontextprotocol/serverInfo":{"name":"x"}"#;
        let subscription = r#""io.modelcontextprotocol/subscriptionId":1"#;
        for (result, expected) in [
            (r#"{ "resultType":"complete" , "content":[] }"#.to_owned(), r#"{ "content":[] }"#),
            (r#"{"content":[],"resultType":"compl\u0065te"}"#.to_owned(), r#"{"content":[]}"#),
            (r#"{ "resultType":"complete" }"#.to_owned(), "{  }"),
            (format!(r#"{{"_meta":{{{info}}},"a":1}}"#), r#"{"a":1}"#),
            (
                format!(r#"{{"a":1,"_meta":{{{subscription} , {info}}},"resultType":"complete"}}"#),
                r#"{"a":1}"#,
            ),
            (format!(r#"{{"_meta":{{{info},"x":1,{subscription}}}}}"#), r#"{"_meta":{"x":1}}"#),
            (r#"{"_meta":{},"resultType":"complete"}"#.to_owned(), r#"{"_meta":{}}"#),
            (
                r#"{"_meta":null,"structuredContent":{}}"#.to_owned(),
                r#"{"_meta":null,"structuredContent":{}}"#,
            ),
        ] {
            assert_eq!(legacy("tools/call", &result), expected, "{result}");
        }
        let read = r#"{"ttlMs":1,"contents":[],"cacheScope":"public","resultType":"complete"}"#;
        assert_eq!(legacy("resources/read", read), r#"{"contents":[]}"#);
    }

    #[test]
    fn keys_are_recognized_in_any_spelling() {
        let result = r#"{"\u0072esultType":"complete","content":[]}"#;
        assert_eq!(
            forwarded("tools/call", result, Era::Modern, Era::Legacy).as_deref(),
            Some(r#"{"content":[]}"#)
        );
        let asks = r#"{"\u0072esultType":"input_required"}"#;
        assert_eq!(forwarded("tools/call", asks, Era::Modern, Era::Modern), None);
    }

    #[test]
    fn what_is_no_entry_of_the_right_kind_is_replaced() {
        let legacy = |result| forwarded("tools/call", result, Era::Legacy, Era::Modern).unwrap();
        let info = r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"us"}}"#;
        assert_eq!(legacy(r#"{"resultType":7}"#), format!(r#"{{"resultType":"complete",{info}}}"#));
        assert_eq!(legacy(r#"{"_meta":null}"#), format!(r#"{{{info},"resultType":"complete"}}"#));
    }

    #[test]
    fn data_that_may_become_text_is_left_to_the_translation() {
        let data = r#"{"content":[],"structuredContent":[1]}"#;
        assert_eq!(forwarded("tools/call", data, Era::Modern, Era::Legacy), None);
        assert!(forwarded("tools/call", data, Era::Modern, Era::Modern).is_some());
    }

    #[test]
    fn what_is_not_complete_is_left_to_the_translation() {
        let (legacy, modern) = (Era::Legacy, Era::Modern);
        assert_eq!(forwarded("tools/call", r#"{"resultType":"task"}"#, modern, legacy), None);
        assert_eq!(forwarded("tools/call", r#"{"resultType":"input_required"}"#, modern, modern), None);
    }
}
