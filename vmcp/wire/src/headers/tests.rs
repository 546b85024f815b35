use serde_json::value::RawValue;

use super::*;

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

fn schema() -> Box<RawValue> {
    raw(r#"{"type":"object","properties":{
        "region":{"type":"string","x-mcp-header":"Region"},
        "page":{"type":"object","properties":{"size":{"type":"integer","x-mcp-header":"Page-Size"}}},
        "dry":{"type":"boolean","x-mcp-header":"Dry","default":{"x-mcp-header":7}}}}"#)
}

#[test]
fn the_examples_of_the_specification() {
    for (text, value) in [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("", ""),
        ("=?BASE64?x?=", "=?BASE64?x?="),
    ] {
        assert_eq!(encode(text), value);
        assert_eq!(decode(value).as_deref(), Some(text));
    }
    assert_eq!(decode("=?base64?not base64?="), None);
    assert_eq!(decode("=?base64?/w==?="), None, "not UTF-8");
}

#[test]
fn arguments_are_repeated_and_checked() {
    let annotations = ParamHeader::parse(&schema()).unwrap();
    let arguments = raw(r#"{"region":"日","page":{"size":42},"dry":true,"other":1}"#);
    let built = build_param_headers(&annotations, Some(&arguments));
    let expected =
        [("mcp-param-region", "=?base64?5pel?="), ("mcp-param-page-size", "42"), ("mcp-param-dry", "true")];
    assert_eq!(built, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let check = |headers: &[(&str, &str)], arguments: &str| {
        check_param_headers(headers, &annotations, Some(&raw(arguments)))
            .map_err(|refusal| refusal.error.message)
    };
    assert!(check_param_headers(built.as_slice(), &annotations, Some(&arguments)).is_ok());
    assert!(
        check(&[("Mcp-Param-Page-Size", "42.0"), ("Mcp-Param-Unknown", "x")], r#"{"page":{"size":42}}"#)
            .is_ok()
    );
    assert!(check(&[("mcp-param-page-size", "10")], r#"{"page":{"size":1e1}}"#).is_ok());
    assert!(check(&[], r#"{"region":null,"page":7}"#).is_ok());
    assert!(
        check(&[("mcp-param-region", "42.0")], r#"{"region":"42"}"#).is_err(),
        "strings are compared as text"
    );
    assert!(check(&[("mcp-param-page-size", "43")], r#"{"page":{"size":42}}"#).is_err());
    assert!(check(&[], r#"{"dry":false}"#).is_err());
    assert!(check(&[("mcp-param-dry", "true")], r#"{"dry":null}"#).is_err());
    assert!(
        check(&[("mcp-param-dry", "true"), ("Mcp-Param-Dry", "true")], r#"{"dry":true}"#).is_err(),
        "twice"
    );
    assert!(check(&[("mcp-param-region", "=?base64?!?=")], r#"{"region":"x"}"#).is_err());
    assert!(check(&[("mcp-param-region", "日")], r#"{"region":"日"}"#).is_err(), "not ASCII");
    let hidden = check(&[], r#"{"region":"a","region":"b"}"#).unwrap_err();
    assert!(hidden.contains("duplicate key `region`"), "{hidden}");
    assert!(check_param_headers::<[(&str, &str)]>(&[], &annotations, None).is_ok());
}

#[test]
fn invalid_annotations_name_their_fault() {
    let parse = |properties: &str| {
        ParamHeader::parse(&raw(&format!(r#"{{"properties":{properties}}}"#))).unwrap_err()
    };
    let name = |value: &str| parse(&format!(r#"{{"a":{{"type":"string","x-mcp-header":{value}}}}}"#));
    for bad in ["\"\"", "7", "\"a b\"", "\"a\\r\\nb\"", "\"é\""] {
        assert!(matches!(name(bad), ParamHeaderError::Name { .. }), "{bad}");
    }
    let typed = |kind: &str| parse(&format!(r#"{{"a":{{"x-mcp-header":"A"{kind}}}}}"#));
    assert_eq!(typed(r#","type":"number""#), ParamHeaderError::Type("a".into()));
    assert_eq!(typed(""), ParamHeaderError::Type("a".into()));
    let twice = r#"{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}"#;
    assert_eq!(parse(twice), ParamHeaderError::Duplicate("a".into()));
    let inner = r#"{"type":"string","x-mcp-header":"A"}"#;
    for elsewhere in [
        format!(r#"{{"a":{{"items":{inner}}}}}"#),
        format!(r#"{{"a":{{"oneOf":[{{"properties":{{"b":{inner}}}}}]}}}}"#),
        format!(r#"{{"a":{{"$defs":{{"properties":{inner}}}}}}}"#),
    ] {
        assert_eq!(parse(&elsewhere), ParamHeaderError::Place, "{elsewhere}");
    }
    let escaped = raw(r#"{"x-mcp-h\u0065ader":"A","type":"object"}"#);
    assert_eq!(ParamHeader::parse(&escaped), Err(ParamHeaderError::Place), "the root is no argument");
    let named_like_a_keyword = raw(r#"{"properties":{"x-mcp-header":{"type":"string"}}}"#);
    assert_eq!(ParamHeader::parse(&named_like_a_keyword), Ok(Vec::new()));
}

#[test]
fn a_backend_gets_the_headers_its_body_implies() {
    let value =
        |headers: Vec<(&str, String)>| headers.into_iter().map(|(_, value)| value).collect::<Vec<_>>();
    let built = value(build(Revision::MODERN, "resources/read", Some("file:///ü")));
    assert_eq!(built, ["2026-07-28", "resources/read", "=?base64?ZmlsZTovLy/DvA==?="]);
    assert_eq!(value(build(Revision::MODERN, "tools/list", Some("ignored"))), ["2026-07-28", "tools/list"]);
}
