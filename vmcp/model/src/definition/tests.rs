use super::*;

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

fn error(json: &str) -> DefinitionError {
    Tool::parse(raw(json)).unwrap_err()
}

#[test]
fn reads_what_we_use_and_keeps_the_rest() {
    let json = r#"{ "name":"get_page", "title":"Page", "description":"Gets.", "x-vendor":[1.50, "\u00e9"],
        "inputSchema":{"type":"object", "properties":{"u":{"type":"string","x-mcp-header":"Region"}}},
        "outputSchema":{}, "annotations":{"title":"T","readOnlyHint":true,"other":1}, "execution":{"a":1} }"#;
    let tool = Tool::parse(raw(json)).unwrap();
    assert_eq!(tool.raw.get(), json);
    assert_eq!((tool.name.as_str(), tool.title.as_deref()), ("get_page", Some("Page")));
    assert_eq!(tool.annotations.title.as_deref(), Some("T"));
    assert_eq!((tool.annotations.read_only_hint, tool.annotations.destructive_hint), (Some(true), None));
    assert_eq!(tool.param_headers.first().unwrap().name, "Region");
    let compact = r#"{"type":"object","properties":{"u":{"type":"string","x-mcp-header":"Region"}}}"#;
    assert_eq!(tool.schema_characters as usize, compact.len());
    assert!(tool.input_schema.is_some() && tool.output_schema.is_some());
}

#[test]
fn the_hash_ignores_the_order_of_keys() {
    let hash = |json: &str| Tool::parse(raw(json)).unwrap().hash;
    let one = hash(r#"{"name":"a","description":"d","inputSchema":{"type":"object","x":{"b":1,"a":2}}}"#);
    assert_eq!(
        one,
        hash(r#"{"inputSchema":{"x":{"a":2, "b":1},"type":"object"},"description":"d","name":"a"}"#)
    );
    assert_ne!(
        one,
        hash(r#"{"name":"a","description":"D","inputSchema":{"type":"object","x":{"b":1,"a":2}}}"#)
    );
}

#[test]
fn rejects_what_breaks_the_protocol() {
    assert_eq!(error(r#"["a","b"]"#), DefinitionError::NotAnObject);
    assert_eq!(error("{}"), DefinitionError::Missing("name"));
    assert_eq!(error(r#"{"name":""}"#), DefinitionError::Missing("name"));
    assert_eq!(
        error(r#"{"name":"a","inputSchema":true}"#),
        DefinitionError::SchemaNotAnObject("inputSchema")
    );
    for malformed in [
        r#"{"name":5}"#,
        r#"{"name":"a","name":"b"}"#,
        r#"{"name":"\ud800"}"#,
        r#"{"name":"a","inputSchema":{"default":1e999}}"#,
    ] {
        assert!(matches!(error(malformed), DefinitionError::Malformed(_)), "{malformed}");
    }
    // Its message quotes all digits.
    let quoted = error(r#"{"name":1e300}"#).to_string();
    assert!(quoted.starts_with("invalid type") && quoted.len() <= 200, "{quoted}");
}

#[test]
fn a_decoration_of_the_wrong_type_costs_itself() {
    let parse = |json: &str| Tool::parse(raw(json)).unwrap();
    let tool = parse(r#"{"name":"a","title":5,"description":["x"],"outputSchema":[],"annotations":"x"}"#);
    assert_eq!((tool.title, tool.description), (None, None));
    assert!(tool.output_schema.is_none() && tool.annotations == Annotations::default());
    let tool =
        parse(r#"{"name":"a","annotations":{"readOnlyHint":"true","destructiveHint":"no","title":1}}"#);
    let hints = tool.annotations;
    assert_eq!((hints.read_only_hint, hints.destructive_hint, hints.title), (Some(true), None, None));
}

#[test]
fn half_a_surrogate_pair_in_a_text_is_replaced() {
    let tool = Tool::parse(raw(
        r#"{"name":"a","title":"\ud83d\ude00","description":"cut \uD83D","inputSchema":{"type":"object","x":"\udc00"}}"#,
    ))
    .unwrap();
    assert_eq!((tool.title.as_deref(), tool.description.as_deref()), (Some("😀"), Some("cut \u{fffd}")));
    assert!(tool.input_schema.unwrap().get().contains(r#""x":"\ufffd""#));
    assert_eq!(
        Prompt::parse(raw(r#"{"name":"a","description":"\ud800"}"#)).unwrap().description.unwrap(),
        "\u{fffd}"
    );
    assert!(Resource::parse(raw(r#"{"name":"a","uri":"x:\ud800"}"#)).is_err(), "the server knows no other");
}

#[test]
fn limits() {
    let nested = |levels: usize| {
        format!(r#"{{"name":"a","inputSchema":{}"]{}}}"#, r#"{"a":"#.repeat(levels), "}".repeat(levels))
            .replace("\"]", "\"]\"")
    };
    assert!(Tool::parse(raw(&nested(MAX_DEPTH - 1))).is_ok());
    assert_eq!(error(&nested(MAX_DEPTH)), DefinitionError::TooDeep(MAX_DEPTH + 1));
    // Far beyond any recursion limit: must neither overflow the stack nor be slow.
    assert_eq!(error(&nested(20_000)), DefinitionError::TooDeep(20_001));

    let long = "n".repeat(MAX_NAME_BYTES + 1);
    assert!(matches!(
        error(&format!(r#"{{"name":"{long}"}}"#)),
        DefinitionError::TooLong { key: "name", .. }
    ));
    let large = format!(r#"{{"name":"a","description":"{}"}}"#, "d".repeat(MAX_DEFINITION_BYTES));
    assert_eq!(error(&large), DefinitionError::TooLarge(large.len()));
}

#[test]
fn resources_templates_and_prompts() {
    let resource = Resource::parse(raw(r#"{"uri":"file:///a","name":"","size":3}"#)).unwrap();
    assert_eq!((resource.uri.as_str(), resource.raw.get().len()), ("file:///a", 38));
    assert_eq!(Resource::parse(raw(r#"{"uri":"x"}"#)).unwrap_err(), DefinitionError::Missing("name"));
    let template = ResourceTemplate::parse(raw(r#"{"uriTemplate":"a://{x}","name":"n"}"#)).unwrap();
    assert_eq!(template.uri_template, "a://{x}");
    assert_eq!(ResourceTemplate::parse(raw("{}")).unwrap_err(), DefinitionError::Missing("uriTemplate"));
    let prompt = Prompt::parse(raw(r#"{"name":"p","description":null}"#)).unwrap();
    assert_eq!((prompt.name.as_str(), prompt.description), ("p", None));
    assert_eq!(Prompt::parse(raw(r#"{"name":null}"#)).unwrap_err(), DefinitionError::Missing("name"));
}

#[test]
fn a_key_in_another_letter_case_rejects_a_definition() {
    for (json, written, key) in [
        (r#"{"name":"weather","Name":"github_create_issue"}"#, "Name", "name"),
        (r#"{"name":"a","description":"reviewed","DESCRIPTION":"changed"}"#, "DESCRIPTION", "description"),
        (r#"{"name":"a","inputSchema":{},"inputschema":{"type":"object"}}"#, "inputschema", "inputSchema"),
        (r#"{"name":"a","\u0041nnotations":{"readOnlyHint":true}}"#, "Annotations", "annotations"),
        (r#"{"name":"a","de\u017fcription":"changed"}"#, "de\u{17f}cription", "description"),
    ] {
        let expected = DefinitionError::LetterCase { written: written.to_owned(), key };
        assert_eq!(error(json), expected);
        assert_eq!(Prompt::parse(raw(json)).unwrap_err(), expected);
    }
    assert!(Resource::parse(raw(r#"{"uri":"a:b","name":"a","URI":"a:c"}"#)).is_err());
    assert!(Prompt::parse(raw(r#"{"name":"a","Icons":[{"src":"javascript:alert(1)"}]}"#)).is_err());
    assert!(
        ResourceTemplate::parse(raw(r#"{"uriTemplate":"a:{b}","name":"a","uritemplate":"c:{d}"}"#)).is_err()
    );
    // Another key may be hidden behind a key that occurs twice.
    assert!(matches!(error(r#"{"name":"a","x":1,"x":2,"Name":"b"}"#), DefinitionError::Malformed(_)));
    // Properties of a schema have names of their own.
    let tool =
        r#"{"name":"a","x-Name":1,"inputSchema":{"type":"object","properties":{"name":{},"Name":{}}}}"#;
    assert!(Tool::parse(raw(tool)).is_ok());
}

#[test]
fn icons_that_clients_must_not_draw_are_left_out() {
    let icons = r#","icons":[{"src":"javascript:alert(1)"}]"#;
    let prompt = Prompt::parse(raw(&format!(r#"{{"name":"p"{icons}}}"#))).unwrap();
    assert_eq!(prompt.raw.get(), r#"{"name":"p"}"#);
    let resource = Resource::parse(raw(&format!(r#"{{"uri":"a:b","name":"r"{icons}}}"#))).unwrap();
    assert_eq!(resource.raw.get(), r#"{"uri":"a:b","name":"r"}"#);
    let template = ResourceTemplate::parse(raw(&format!(r#"{{"uriTemplate":"a:{{b}}","name":"t"{icons}}}"#)));
    assert_eq!(template.unwrap().raw.get(), r#"{"uriTemplate":"a:{b}","name":"t"}"#);
    let safe = r#"{"name":"p","icons":[{"src":"https://a.example/i.png"}]}"#;
    assert_eq!(Prompt::parse(raw(safe)).unwrap().raw.get(), safe);
}
