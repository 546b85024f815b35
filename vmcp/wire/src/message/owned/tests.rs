use super::*;
use crate::message::codes;

fn read(text: &str) -> Result<OwnedMessage, EnvelopeError> {
    OwnedMessage::parse(Bytes::copy_from_slice(text.as_bytes()))
}

fn request(text: &str) -> OwnedRequest {
    let Ok(OwnedMessage::Request(request)) = read(text) else { panic!("a request: {text}") };
    request
}

#[test]
fn parts_are_slices_of_the_received_bytes() {
    let body = Bytes::from_static(
        br#" {"params" : {"name":"a\u0062","_meta" : {"progressToken":"t", "x":[{}]},"arguments": {"k":1e400}}, "method":"tools\/call","id":"7","jsonrpc":"2.0"}"#,
    );
    let Ok(OwnedMessage::Request(request)) = OwnedMessage::parse(body.clone()) else { panic!("a request") };
    assert_eq!((request.id().get(), request.method()), ("\"7\"", "tools/call"));
    assert_eq!(request.subject().as_deref(), Some("ab"));
    let params = request.params();
    assert_eq!(params.get("arguments"), Some(r#"{"k":1e400}"#));
    assert_eq!(params.keys().collect::<Vec<_>>(), ["name", "_meta", "arguments"]);
    assert_eq!((params.meta().progress_token(), params.meta().get("x")), (Some("\"t\""), Some("[{}]")));
    let shared = params.share(params.get("arguments").unwrap());
    assert!(body.as_ptr_range().contains(&shared.as_ptr()), "no copy");
    assert_eq!(params.share("else"), "else");
}

#[test]
fn keys_are_recognized_in_any_spelling() {
    let escaped = request(
        r#"{"jsonrpc":"2.0","id":1,"m\u0065thod":"x","params":{"\u005fmeta":{"\u0070rogressToken":1},"n\u0061me":"n"}}"#,
    );
    assert_eq!(escaped.params().meta().progress_token(), Some("1"));
    assert_eq!(escaped.params().get_str("name").as_deref(), Some("n"));
    for (params, message) in [
        (r#"{"a":1,"\u0061":2}"#, "`params`: duplicate key `a`"),
        (r#"{"_meta":{"b":1,"b":1}}"#, "`params._meta`: duplicate key `b`"),
        (r#"{"_meta":{},"\u005fmeta":{}}"#, "`params`: duplicate key `_meta`"),
        (r#"{"_meta":7}"#, "`params._meta`: expected a JSON object"),
        (r#"{"\ud800":7}"#, r#"`params`: key "\ud800" is not valid Unicode"#),
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":3,"method":"m","params":{params}}}"#);
        let error = read(&text).unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (codes::INVALID_PARAMS, message));
        assert_eq!(error.id.as_deref().map(RawValue::get), Some("3"));
    }
}

#[test]
fn only_parameters_have_a_limited_depth() {
    let nested = |key: &str, levels: usize| {
        format!(r#"{{"jsonrpc":"2.0","id":1,{key}:{}1{}}}"#, r#"{"a":"#.repeat(levels), "}".repeat(levels))
    };
    let params = r#""method":"m","params""#;
    assert!(read(&nested(params, MAX_DEPTH - 1)).is_ok());
    assert_eq!(read(&nested(params, MAX_DEPTH)).unwrap_err().reason, Reason::Depth);
    assert!(read(&nested(r#""result""#, 10 * MAX_DEPTH)).is_ok());
    let alone = |levels: usize| {
        let text = format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        OwnedParams::from_text(text).is_ok()
    };
    assert!(alone(MAX_DEPTH - 1) && !alone(MAX_DEPTH) && !alone(100_000), "parameters of no message");
}

#[test]
fn absent_parameters_read_as_an_empty_object() {
    for text in
        [r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#, r#"{"jsonrpc":"2.0","id":1,"method":"m","params":null}"#]
    {
        let request = request(text);
        assert!(!request.params().is_present() && request.params().text() == "{}");
        assert!(request.params().meta().client_info().is_none());
    }
    assert!(OwnedParams::from_text("[]").is_err() && OwnedParams::from_text("{").is_err());
    assert_eq!(OwnedParams::from_text(" {\"a\":1} ").unwrap().text(), "{\"a\":1}");
}

#[test]
fn a_reserved_key_in_another_letter_case_is_refused() {
    for (method, params, written, key) in [
        ("tools/call", r#"{"name":"ok","Name":"vault"}"#, "Name", "name"),
        ("tools/call", r#"{"name":"ok","n\u0041me":"vault"}"#, "nAme", "name"),
        ("tools/call", r#"{"name":"ok","ARGUMENTS":{"a":1}}"#, "ARGUMENTS", "arguments"),
        ("tools/call", r#"{"name":"ok","argument\u017f":{"a":1}}"#, "argument\u{17f}", "arguments"),
        ("tools/call", r#"{"name":"ok","ta\u017f\u212a":{}}"#, "ta\u{17f}\u{212a}", "task"),
        ("tools/call", r#"{"name":"ok","_meta":{"ProgressToken":7}}"#, "ProgressToken", "progressToken"),
        ("prompts/get", r#"{"NAME":"vault"}"#, "NAME", "name"),
        ("resources/read", r#"{"uri":"a:b","Uri":"a:c"}"#, "Uri", "uri"),
        ("resources/subscribe", r#"{"uri":"a:b","URI":"a:c"}"#, "URI", "uri"),
        ("tasks/result", r#"{"taskId":"a","taskid":"b"}"#, "taskid", "taskId"),
        ("completion/complete", r#"{"ref":{"type":"ref/prompt","name":"a"},"Ref":{}}"#, "Ref", "ref"),
        ("completion/complete", r#"{"ref":{"type":"ref/prompt","name":"a","Name":"b"}}"#, "Name", "name"),
        ("completion/complete", r#"{"argument":{"name":"a","Value":"b"}}"#, "Value", "value"),
        ("completion/complete", r#"{"context":{"Arguments":{}}}"#, "Arguments", "arguments"),
    ] {
        let error = read(&format!(r#"{{"jsonrpc":"2.0","id":3,"method":"{method}","params":{params}}}"#));
        let error = error.unwrap_err();
        assert_eq!(error.reason, Reason::LetterCase { written: written.to_owned(), key }, "{params}");
        assert_eq!(
            (error.code(), error.id.as_deref().map(RawValue::get)),
            (codes::INVALID_PARAMS, Some("3"))
        );
    }
    for (method, params) in [
        ("tools/call", r#"{"name":"ok","arguments":{"Name":1,"name":2},"names":1,"x-Name":2}"#),
        ("tools/call", r#"{"name":"ok","_meta":{"Name":1,"x":2}}"#),
        ("vendor/get", r#"{"Name":"x"}"#),
    ] {
        request(&format!(r#"{{"jsonrpc":"2.0","id":3,"method":"{method}","params":{params}}}"#));
    }
}
