use super::*;

fn refused(text: &str) -> (i64, Reason, Option<String>) {
    let error = Message::parse(text.as_bytes()).unwrap_err();
    (error.code(), error.reason, error.id.map(|id| id.get().to_owned()))
}

#[test]
fn splits_each_kind_into_borrowed_parts() {
    let bytes = br#" {"params": {"a" : 1e400 }, "method":"tools\/call" , "id" : "x\u0000", "jsonrpc":"2.0", "more":[]} "#;
    let Message::Request(request) = Message::parse(bytes).unwrap() else { panic!("a request") };
    assert_eq!(
        (request.id.get(), &*request.method, request.params.unwrap().get()),
        (r#""x\u0000""#, "tools/call", r#"{"a" : 1e400 }"#)
    );
    let Message::Notification(note) =
        Message::parse(br#"{"jsonrpc":"2.0","method":"m","params":null}"#).unwrap()
    else {
        panic!("a notification")
    };
    assert_eq!((note.method, note.params.is_none()), (Cow::Borrowed("m"), true));
    let Message::Response(response) = Message::parse(br#"{"jsonrpc":"2.0","id":-1,"result":{}}"#).unwrap()
    else {
        panic!("a response")
    };
    assert_eq!((response.id.get(), response.result.get()), ("-1", "{}"));
    for (id, expected) in [("", None), (r#""id":null,"#, None), (r#""id":3,"#, Some("3"))] {
        let text = format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":1,"message":""}}}}"#);
        let Message::Error(error) = Message::parse(text.as_bytes()).unwrap() else { panic!("an error") };
        assert_eq!(error.id.map(RawValue::get), expected);
    }
}

#[test]
fn names_what_is_wrong() {
    let shape = |text| matches!(refused(text), (codes::INVALID_REQUEST, Reason::Shape(_), _));
    assert!(shape("1"));
    assert!(shape(r#"{"jsonrpc":"2.0","id":1}"#));
    assert!(shape(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#), "a repeated key");
    assert!(shape(r#"{"jsonrpc":"2.0","id":1,"method":"m","result":{}}"#));
    assert!(shape(r#"{"jsonrpc":"2.0","id":1,"method":7}"#));
    assert!(shape(r#"{"jsonrpc":"2.0","id":1,"result":[]}"#));
    assert!(matches!(
        refused(r#"[{"jsonrpc":"2.0","id":1,"method":"m"}]"#),
        (codes::INVALID_REQUEST, Reason::Batch, None)
    ));
    for syntax in ["", "{", "nonsense", r#"{"jsonrpc":"2.0"} {"#, "[1,"] {
        assert!(matches!(refused(syntax), (codes::PARSE_ERROR, Reason::Syntax(_), None)), "{syntax}");
    }
    assert!(matches!(Message::parse(b"{\xff}").unwrap_err().reason, Reason::Encoding(1)));
}

#[test]
fn an_error_carries_the_id_when_it_has_one() {
    let version = refused(r#"{"jsonrpc":"1.0","id":7,"method":"m"}"#);
    assert_eq!(version, (codes::INVALID_REQUEST, Reason::Version, Some("7".into())));
    let params = refused(r#"{"jsonrpc":"2.0","id":"q","method":"m","params":[1]}"#);
    assert_eq!(params, (codes::INVALID_PARAMS, Reason::Params, Some("\"q\"".into())));
    for id in ["null", "true", "1.5", "{}", "1e3"] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
        assert_eq!(refused(&text), (codes::INVALID_REQUEST, Reason::Id, None), "{id}");
    }
    for is_number in [true, false] {
        let id = |bytes: usize| {
            if is_number { "9".repeat(bytes) } else { format!("\"{}\"", "x".repeat(bytes - 2)) }
        };
        let text = |bytes| format!(r#"{{"jsonrpc":"2.0","id":{},"method":"m"}}"#, id(bytes));
        assert!(Message::parse(text(MAX_ID_BYTES).as_bytes()).is_ok(), "{is_number}");
        let longer = refused(&text(MAX_ID_BYTES + 1));
        assert_eq!(longer, (codes::INVALID_REQUEST, Reason::Id, None), "{is_number}");
    }
}

#[test]
fn refuses_depth_before_anything_recurses() {
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{}1{}}}"#,
        r#"{"a":"#.repeat(10_000),
        "}".repeat(10_000)
    );
    assert_eq!(refused(&deep).1, Reason::Depth);
    let fits = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{}1{}}}"#,
        r#"{"a":"#.repeat(127),
        "}".repeat(127)
    );
    assert!(Message::parse(fits.as_bytes()).is_ok());
    let bracket_in_text =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":"{}"}}}}"#, "[".repeat(10_000));
    assert!(Message::parse(bracket_in_text.as_bytes()).is_ok());
}
