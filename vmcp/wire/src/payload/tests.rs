use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

fn scan(bytes: &[u8], size: usize) -> Result<ScannedKeys, ScanError> {
    let mut scanner = Scanner::default();
    bytes.chunks(size).try_for_each(|piece| scanner.push(piece))?;
    scanner.finish()
}

fn text<'a>(bytes: &'a str, found: &ScannedKeys, key: Key) -> Option<&'a str> {
    bytes.get(found.range(key)?)
}

const ANSWER: &str = r#" {"id" : "a\"1","jsonrpc":"2.0","x":[{"result":1}], "result":{"content":[{"text":"résumé \u00e9 \\","isError":true}],
    "isError" : false,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x"},"n":-1.5e+3},"resultType":"complete"} } "#;

#[test]
fn finds_the_keys_that_matter_however_the_bytes_arrive() {
    for size in [1, 2, 3, 7, 64, 1000] {
        let found = scan(ANSWER.as_bytes(), size).unwrap();
        assert_eq!(text(ANSWER, &found, Key::Id), Some(r#""a\"1""#));
        assert_eq!(text(ANSWER, &found, Key::Version), Some(r#""2.0""#));
        assert_eq!(text(ANSWER, &found, Key::ResultType), Some(r#""complete""#));
        assert_eq!(text(ANSWER, &found, Key::ServerInfo), Some(r#"{"name":"x"}"#));
        assert_eq!(text(ANSWER, &found, Key::IsError), Some("false"));
        assert!(text(ANSWER, &found, Key::Result).unwrap().ends_with(r#""complete"}"#));
        assert!(!found.is_true(Key::IsError) && found.has_entries(Key::Meta) && !found.has(Key::TtlMs));
    }
}

#[test]
fn an_answer_is_told_from_what_is_none() {
    let read = |text: &'static str, id: &str| {
        let found = scan(text.as_bytes(), 1000).unwrap();
        reply(ByteRope::from(text), found, id)
    };
    let result = read(r#"{"jsonrpc":"2.0","id":7,"result":{"isError":true}}"#, "7");
    let Ok(Reply::Result(payload)) = result else { panic!("a result") };
    assert!(payload.is_tool_error());
    assert_eq!(&*payload.copied(), br#"{"isError":true}"#);
    assert_eq!(payload.get(), r#"{"isError":true}"#);
    assert_eq!(payload.into_raw().get(), r#"{"isError":true}"#);
    let error = read(r#"{"error":{"code":1,"message":"x"},"jsonrpc":"2.0","id":7}"#, "7");
    assert!(matches!(error, Ok(Reply::Error(payload)) if payload.get() == r#"{"code":1,"message":"x"}"#));
    for (text, id) in [
        (r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, "8"),
        (r#"{"jsonrpc":"2.0","id":"7","result":{}}"#, "7"),
        (r#"{"jsonrpc":"1.0","id":7,"result":{}}"#, "7"),
        (r#"{"jsonrpc":"2.0","id":7,"result":[]}"#, "7"),
        (r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{}}"#, "7"),
        (r#"{"jsonrpc":"2.0","id":7,"method":"x"}"#, "7"),
        (r#"{"id":7,"result":{}}"#, "7"),
    ] {
        assert!(read(text, id).is_err(), "{text}");
    }
}

#[test]
fn what_is_no_answer_is_refused_where_it_goes_wrong() {
    assert_eq!(scan(b"[]", 9), Err(ScanError::Syntax(0)));
    assert_eq!(scan(br#"{"a":tru}"#, 9), Err(ScanError::Syntax(8)));
    assert_eq!(scan(br#"{"a":"b"#, 3), Err(ScanError::Truncated(7)));
    assert_eq!(scan(b"", 1), Err(ScanError::Truncated(0)));
    assert_eq!(scan(b"{\"a\":\"\xff\"}", 4), Err(ScanError::Encoding(6)));
    assert_eq!(scan(br#"{"id":1,"id":2}"#, 9), Err(ScanError::Duplicate(Key::Id)));
    assert_eq!(scan(br#"{"result":{"_meta":{},"_meta":{}}}"#, 9), Err(ScanError::Duplicate(Key::Meta)));
    let deep = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
    assert!(scan(deep(10_000).as_bytes(), 100).is_ok());
    assert!(scan(deep(100).replacen(']', "", 1).as_bytes(), 7).is_err());
}

#[test]
fn the_type_of_a_result_in_another_letter_case_is_refused() {
    let ask = |key: &str| format!(r#"{{"id":1,"result":{{"content":[],"{key}":"input_required"}}}}"#);
    for key in ["ResultType", "RESULTTYPE", "resulttype", "re\\u0053ultType", "re\u{17f}ultType"] {
        for size in [1, 7, 1000] {
            assert_eq!(scan(ask(key).as_bytes(), size), Err(ScanError::LetterCase), "{key}");
        }
    }
    for key in ["resultType", "resultTypes", "ResultTyp", "result_type", "Results"] {
        assert!(scan(ask(key).as_bytes(), 5).is_ok(), "{key}");
    }
    let elsewhere =
        r#"{"ResultType":1,"result":{"structuredContent":{"ResultType":1},"_meta":{"ResultType":1}}}"#;
    assert!(scan(elsewhere.as_bytes(), 9).is_ok());
}

#[test]
fn what_is_nested_ends_where_it_should_and_else_is_left_to_the_reader() {
    let answer = |nested: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":{nested},"isError":true}}}}"#)
    };
    for nested in ["[tru]", "[}", r#"{"a" 1}"#, r#"["\x"]"#, "[1,,NaN]"] {
        let text = answer(nested);
        let found = scan(text.as_bytes(), 5).unwrap();
        assert!(found.is_true(Key::IsError), "{nested}");
        let Ok(Reply::Result(payload)) = reply(text.into(), found, "7") else { panic!("a result") };
        assert!(payload.get().starts_with(&format!(r#"{{"content":{nested}"#)), "{nested}");
        let error = serde_json::from_str::<serde_json::Value>(payload.get()).expect_err("no JSON");
        assert!(error.to_string().contains("line 1 column"), "{error}");
    }
    for nested in ["[[]", "[]]", "[\"\n\"]", "[\\]", "[\u{1}]", r#"["]"#] {
        assert!(scan(answer(nested).as_bytes(), 5).is_err(), "{nested}");
    }
}

#[test]
fn links_are_looked_for_in_blocks_and_not_in_structured_content() {
    let may_hold = |result: &str| {
        let text = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#);
        let found = scan(text.as_bytes(), 9).unwrap();
        let Ok(Reply::Result(payload)) = reply(text.into(), found, "7") else { panic!("a result") };
        payload.may_hold_links()
    };
    let (link, none) = (r#"[{"type":"resource_link"}]"#, r#"[{"type":"text","text":""}]"#);
    assert!(may_hold(&format!(r#"{{"content":{link},"structuredContent":{{"a":1}}}}"#)));
    assert!(may_hold(&format!(r#"{{"structuredContent":{{"a":1}},"content":{link}}}"#)));
    assert!(may_hold(&format!(r#"{{"content":{link}}}"#)));
    assert!(!may_hold(&format!(r#"{{"content":{none},"structuredContent":{link}}}"#)));
}

proptest! {
    /// Asserts that the scanner and serde_json accept the same texts, nested ones apart: there the scanner
    /// accepts more.
    #[test]
    fn accepts_what_a_parser_accepts(
        tokens in vec(select(vec!["{", "}", "[", "]", ",", ":", "\"a\"", "\"", "\\", "\\n", "\\u00", "é", "1", "-", "0", ".5", "e", "+", "true", "nul", "null", " ", "\n", "\u{1}"]), 0..14),
        size in 1..9_usize,
    ) {
        let text = format!("{{\"x\":{}}}", tokens.concat());
        let parsed = serde_json::from_str::<&RawValue>(&text).is_ok();
        let scanned = scan(text.as_bytes(), size).is_ok();
        prop_assert!(scanned || !parsed, "{}", text);
        let is_nested = tokens.iter().any(|token| matches!(*token, "{" | "["));
        prop_assert!(parsed || !scanned || is_nested, "{}", text);
    }
}
