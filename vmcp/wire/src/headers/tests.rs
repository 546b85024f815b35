use serde_json::value::RawValue;

use super::*;

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

fn annotations() -> Vec<ParamHeader> {
    let annotation = |name: &str, path: &[&str]| ParamHeader {
        name: name.to_owned(),
        path: path.iter().map(|key| (*key).to_owned()).collect(),
    };
    vec![
        annotation("Region", &["region"]),
        annotation("Page-Size", &["page", "size"]),
        annotation("Dry", &["dry"]),
    ]
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
    let annotations = annotations();
    let arguments = raw(r#"{"region":"日","page":{"size":42},"dry":true,"other":1}"#);
    let built = build_param_headers(&annotations, Some(arguments.get()));
    let expected =
        [("mcp-param-region", "=?base64?5pel?="), ("mcp-param-page-size", "42"), ("mcp-param-dry", "true")];
    assert_eq!(built, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let check = |headers: &[(&str, &str)], arguments: &str| {
        check_param_headers(headers, &annotations, Some(raw(arguments).get()))
            .map_err(|refusal| refusal.error.message)
    };
    assert!(check_param_headers(built.as_slice(), &annotations, Some(arguments.get())).is_ok());
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
fn a_backend_gets_the_headers_its_body_implies() {
    let value =
        |headers: Vec<(&str, String)>| headers.into_iter().map(|(_, value)| value).collect::<Vec<_>>();
    let built = value(build(Revision::MODERN, "resources/read", Some("file:///ü")));
    assert_eq!(built, ["2026-07-28", "resources/read", "=?base64?ZmlsZTovLy/DvA==?="]);
    assert_eq!(value(build(Revision::MODERN, "tools/list", Some("ignored"))), ["2026-07-28", "tools/list"]);
}
