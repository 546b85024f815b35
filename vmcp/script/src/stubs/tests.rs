use serde_json::{Map, json};

use super::*;

fn of(input: &Value, output: Option<&Value>) -> String {
    stub(&Tool { server: Some("s"), name: "t", description: "", input: Some(input), output, observed: None })
}

#[test]
fn a_tool_without_arguments_is_one_line() {
    assert_eq!(of(&json!({ "type": "object" }), None), "def s.t() -> Any: ...");
    assert_eq!(of(&Value::Null, None), "def s.t() -> Any: ...");
    assert_eq!(of(&json!([1]), Some(&json!({ "type": "integer" }))), "def s.t() -> int: ...");
}

#[test]
fn types_choices_and_defaults_are_those_of_the_schema() {
    let input = json!({ "required": ["state"], "properties": {
        "any": {}, "both": { "type": ["string", "null"] }, "count": { "type": "integer", "default": 3 },
        "flags": { "type": "object", "additionalProperties": { "type": "boolean" } },
        "how": { "anyOf": [{ "type": "number" }, { "const": "all" }], "default": "all" },
        "state": { "enum": ["open", "closed"] },
    }});
    let expected = "def s.t(*,
    state: Literal[\"open\", \"closed\"],
    any: Any = ...,
    both: str | None = ...,
    count: int = 3,
    flags: dict[str, bool] = ...,
    how: float | Literal[\"all\"] = \"all\",
) -> Any: ...";
    assert_eq!(of(&input, None), expected);
}

#[test]
fn objects_become_classes_and_references_are_followed() {
    let output = json!({ "$ref": "#/$defs/Page", "$defs": {
        "Page": { "title": "Page", "type": "object", "required": ["items"], "properties": {
            "items": { "type": "array", "items": { "$ref": "#/$defs/Item" } }, "next-page": { "type": "integer" } } },
        "Item": { "title": "Item", "type": "object", "properties": { "id": { "type": "string" } } },
    }});
    let expected = "class Item(TypedDict):
    id: NotRequired[str]
class Page(TypedDict):
    items: list[Item]
    # next-page: NotRequired[int]
def s.t() -> Page: ...";
    assert_eq!(of(&json!({}), Some(&output)), expected);
}

#[test]
fn schemas_that_contain_themselves_end() {
    let tree = json!({ "$ref": "#/$defs/T", "$defs": { "T": { "type": "object", "properties": {
        "left": { "$ref": "#/$defs/T" }, "right": { "$ref": "#/$defs/T" }, "loop": { "$ref": "#/$defs/L" } } },
        "L": { "$ref": "#/$defs/L" } } });
    let stub = of(&json!({}), Some(&tree));
    assert!(stub.len() < 4000 && stub.ends_with(": ..."), "{stub}");
}

#[test]
fn a_schema_that_contains_itself_often_costs_a_bounded_stub() {
    let properties: Map<_, _> = (0..3000).map(|key| (format!("k{key}"), json!({ "$ref": "#" }))).collect();
    let schema = json!({ "type": "object", "properties": properties });
    let stub = of(&json!({}), Some(&schema));
    let nested = stub.matches("NotRequired[Shape").count();
    assert!(nested <= 2_000, "{nested} types were written");
    assert!(stub.contains("NotRequired[Any]"), "{stub}");
}

#[test]
fn texts_of_servers_stay_in_their_comment() {
    let input = json!({ "properties": { "a": { "type": "string", "description": format!("one\n) -> evil\r{}", "x".repeat(300)) },
        "import os": { "type": "string", "description": "two\nlines" } } });
    let description = "First.\nSecond";
    let tool = Tool {
        server: Some("s"),
        name: "a\nb",
        description,
        input: Some(&input),
        output: None,
        observed: None,
    };
    let stub = stub(&tool);
    let lines: Vec<_> = stub.lines().collect();
    assert_eq!(lines.len(), 4, "{stub}");
    assert!(
        lines[1].starts_with("    a: str = ...,  # one ) -> evil xxx") && lines[1].ends_with('…'),
        "{stub}"
    );
    assert_eq!(lines[2], r#"    # by **{"import os": str}  # two lines"#);
    assert_eq!(lines[3], ") -> Any: ...  # First.");
}

#[test]
fn an_observed_shape_is_a_comment_unless_a_shape_is_declared() {
    let stub = |output| {
        let observed = Some("observed in 2 calls, not declared: list[str]");
        stub(&Tool { server: Some("s"), name: "t", description: "Lists.", input: None, output, observed })
    };
    let expected = "def s.t() -> Any: ...  # Lists.\n# observed in 2 calls, not declared: list[str]";
    assert_eq!(stub(None), expected);
    assert_eq!(stub(Some(&json!({ "type": "integer" }))), "def s.t() -> int: ...  # Lists.");
    let alone =
        Tool { server: None, name: "s_t-x", description: "", input: None, output: None, observed: None };
    assert_eq!(super::stub(&alone), "def s_t_x() -> Any: ...");
}

#[test]
fn a_wrapped_reference_has_the_type_that_it_refers_to() {
    let input = json!({ "properties": {
        "state": { "allOf": [{ "$ref": "#/$defs/State" }], "default": "open" },
        "two": { "allOf": [{ "type": "string" }, { "minLength": 1 }] },
    }, "$defs": { "State": { "enum": ["open", "closed"] } } });
    let expected = "def s.t(*,
    state: Literal[\"open\", \"closed\"] = \"open\",
    two: Any = ...,
) -> Any: ...";
    assert_eq!(of(&input, None), expected);
}
