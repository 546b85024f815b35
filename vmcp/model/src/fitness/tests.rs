//! Tables of definitions that clients or model APIs refuse or take.

use serde_json::json;

use super::*;
use crate::definition::Tool;

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

fn fitness(definition: &Value) -> Option<Box<Fitness>> {
    Tool::parse(raw(definition)).unwrap().fitness
}

fn input(schema: &Value) -> Option<Box<Fitness>> {
    fitness(&json!({"name": "t", "inputSchema": schema}))
}

fn output(schema: &Value) -> Option<Box<Fitness>> {
    fitness(&json!({"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}))
}

/// Returns the listed JSON of a key that was mended; `Null` if the key is left out.
fn listed(fitness: &Fitness, key: &str) -> Value {
    let (_, json) = fitness.edits.iter().find(|(edited, _)| *edited == key).unwrap();
    json.as_ref().map_or(Value::Null, |json| serde_json::from_str(json).unwrap())
}

#[test]
fn good_definitions_are_left_alone() {
    for schema in [
        json!({"type": "object"}),
        json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
            "properties": {"item": {"$ref": "#/definitions/Item"}}, "definitions": {"Item": {"type": "string"}}}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A~1b%20c"}, "b": {"$ref": "#anchor"}, "c": {"$ref": "#"}},
            "$defs": {"A/b c": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "d": {"$anchor": "anchor"}}}),
        json!({"type": "object", "properties": {"type": {"type": "string"}, "enum": {"type": "array", "items": {}},
            "required": {"type": "boolean"}, "a.b-c_1": {"oneOf": [{"const": null}, {"not": {}}]}}}),
        json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"$nested name": true, "$ref": {"type": "string"}}}},
            "if": {"required": ["a"]}, "then": {}, "default": {"required": null}}),
        json!({"type": "object", "properties": {"a": {"default": null, "enum": [null, {"required": null}], "x-vendor": null,
            "type": ["string", "null"], "pattern": "(?P<x>a)", "minLength": 1.0, "format": "uuid"}}}),
        json!({"type": "object", "properties": {"t": {"type": "array", "prefixItems": [{}, true], "items": false}}}),
        json!({"type": "object", "dependencies": {"a": ["b"], "b": {"type": "object"}}, "patternProperties": {"^x": true}}),
    ] {
        assert_eq!(input(&schema), None, "{schema}");
    }
    assert_eq!(fitness(&json!({"name": "t"})), None, "a missing schema is added elsewhere");
    let decorated = json!({"name": "t", "title": "T", "inputSchema": {"type": "object"}, "icons": [{"src": "data:,"}],
        "annotations": {"readOnlyHint": true}, "execution": {"taskSupport": "optional"}, "_meta": {"a": null}, "x": null});
    assert_eq!(fitness(&decorated), None);
}

#[test]
fn input_schemas_that_model_apis_refuse_are_not_listed() {
    let object = |keyword: &str, value: Value| json!({"type": "object", keyword: value});
    for (schema, named) in [
        (object("anyOf", json!([{"required": ["a"]}, {"required": ["b"]}])), "`anyOf` at its top"),
        (object("oneOf", json!([{}])), "`oneOf` at its top"),
        (object("allOf", json!([{"type": "object"}])), "`allOf` at its top"),
        (object("not", json!({"required": ["a"]})), "`not` at its top"),
        (object("enum", json!([{}])), "`enum` at its top"),
        (json!({"anyOf": [{"type": "object"}]}), "`anyOf` at its top"),
        (object("properties", json!({"$filter": {}})), "$filter"),
        (object("properties", json!({"first name": {}})), "first name"),
        (object("properties", json!({"filter[x]": {}})), "filter[x]"),
        (object("properties", json!({"größe": {}})), "größe"),
        (object("properties", json!({"": {}})), "name of the property"),
        (object("properties", json!({"n".repeat(70): {}})), "nnn"),
        (object("properties", json!(["a"])), "inputSchema/properties"),
        (object("properties", json!({"type": "object"})), "inputSchema/properties/type: it is not a schema"),
        (object("properties", json!({"a": {"type": "str"}})), "inputSchema/properties/a/type"),
        (object("properties", json!({"a": {"type": ["string", "string"]}})), "a/type"),
        (object("properties", json!({"a": {"enum": "x"}})), "a/enum"),
        (object("properties", json!({"a": {"minimum": "0"}})), "a/minimum"),
        (object("properties", json!({"a": {"multipleOf": 0}})), "a/multipleOf"),
        (object("properties", json!({"a": {"maxLength": -1}})), "a/maxLength"),
        (object("properties", json!({"a": {"anyOf": [{"type": "any"}]}})), "a/anyOf/0/type"),
        (object("properties", json!({"a": {"additionalProperties": "no"}})), "a/additionalProperties"),
        (object("properties", json!({"a": {"$ref": "#/$defs/A"}})), "#/$defs/A"),
        (object("properties", json!({"a": {"$ref": "https://example.com/a.json"}})), "example.com"),
        (object("required", json!("a")), "inputSchema/required"),
        (object("required", json!([1])), "inputSchema/required"),
        (json!({"type": "string"}), "is of type"),
        (json!({"type": ["array", "null"]}), "is of type"),
    ] {
        let found = input(&schema).unwrap_or_else(|| panic!("{schema}"));
        assert!(found.refused.text().contains(named), "{schema}: {}", found.refused.text());
    }
}

#[test]
fn input_schemas_are_mended_where_that_is_safe() {
    for (schema, mended) in [
        (json!({}), json!({"type": "object"})),
        (json!({"type": null, "properties": {"a": {}}}), json!({"properties": {"a": {}}, "type": "object"})),
        (json!({"type": ["object", "null"]}), json!({"type": "object"})),
        (
            json!({"$ref": "#/$defs/A", "$defs": {"A": {}}}),
            json!({"$ref": "#/$defs/A", "$defs": {"A": {}}, "type": "object"}),
        ),
        (json!({"type": "object", "required": null}), json!({"type": "object"})),
        (json!({"type": "object", "properties": null, "anyOf": []}), json!({"type": "object"})),
        (json!({"type": "object", "properties": []}), json!({"type": "object"})),
        (json!({"type": "object", "required": {}}), json!({"type": "object"})),
        (
            json!({"type": "object", "required": ["a", "b", "a"]}),
            json!({"type": "object", "required": ["a", "b"]}),
        ),
        (
            json!({"type": "object", "properties": {"a": true, "b": false, "c": null}}),
            json!({"type": "object", "properties": {"a": {}, "b": {"not": {}}, "c": {}}}),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "required": null, "description": null}}}),
            json!({"type": "object", "properties": {"a": {"type": "object"}}}),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "required": true, "examples": "x", "enum": []}}}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "(["}}}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array"}}}),
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {}}}}),
        ),
        (
            json!({"type": "object", "properties": {"a": {"items": [{"type": "number"}], "additionalItems": false}}}),
            json!({"type": "object", "properties": {"a": {"prefixItems": [{"type": "number"}], "items": false}}}),
        ),
        (
            json!({"type": "object", "properties": {"a": {"minimum": 0, "exclusiveMinimum": true, "exclusiveMaximum": false}}}),
            json!({"type": "object", "properties": {"a": {"exclusiveMinimum": 0}}}),
        ),
    ] {
        let found = input(&schema).unwrap_or_else(|| panic!("{schema}"));
        assert!(found.refused.is_empty() && !found.mended.is_empty(), "{schema}: {}", found.refused.text());
        assert_eq!(listed(&found, "inputSchema"), mended);
    }
}

#[test]
fn output_schemas_that_do_not_compile_are_left_out() {
    for schema in [
        json!({"type": "object", "properties": {"s": {"$ref": "#/$defs/Screen"}}}),
        json!({"type": "object", "properties": {"s": {"$ref": "#/components/schemas/S"}}, "$defs": {"S": {}}}),
        json!({"type": "object", "properties": {"s": {"$ref": "Screen.json"}}}),
        json!({"type": "object", "properties": {"s": {"type": "text"}}}),
        json!({"type": "object", "properties": {"s": {"type": "string", "pattern": "("}}}),
        json!({"type": "object", "properties": {"s": {"type": "string", "pattern": "(?P<x>a)"}}}),
        json!({"type": "object", "properties": {"s": {"nullable": true, "anyOf": [{"type": "string"}]}}}),
        json!({"type": "object", "properties": {"s": {"type": ["string", "null"], "nullable": false}}}),
        json!({"type": "object", "properties": {"s": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}}),
        json!({"type": "object", "properties": {"s": "string"}}),
        json!({"type": "object", "required": "s"}),
        json!({"type": "object", "properties": {"s": {"minLength": "1"}}}),
    ] {
        let found = output(&schema).unwrap_or_else(|| panic!("{schema}"));
        assert!(found.refused.is_empty(), "the tool stays listed");
        assert_eq!(listed(&found, "outputSchema"), Value::Null, "{schema}");
        assert!(found.mended.text().contains("without its output schema"), "{}", found.mended.text());
    }
    for schema in [
        json!({"type": "array"}),
        json!({"type": "object", "anyOf": [{"required": ["a"]}], "properties": {"first name": {}}}),
        json!({"$id": "https://e.com/a", "type": "object", "properties": {"s": {"$ref": "#/$defs/S"}, "t": {"$ref": "b"}},
            "$defs": {"S": {"type": "array"}, "T": {"$id": "https://e.com/b"}}}),
        json!({"type": "object", "properties": {"meta": {"$ref": "http://json-schema.org/draft-07/schema#"}}}),
    ] {
        assert_eq!(output(&schema), None, "{schema}");
    }
    let found = output(&json!({"type": "object", "properties": {"a": true}, "required": null})).unwrap();
    assert_eq!(listed(&found, "outputSchema"), json!({"type": "object", "properties": {"a": {}}}));
}

#[test]
fn decorations_that_clients_refuse_are_left_out() {
    for (key, value) in [
        ("title", json!(null)),
        ("title", json!(5)),
        ("description", json!(["x"])),
        ("outputSchema", json!([])),
        ("annotations", json!("x")),
        ("description", json!(null)),
        ("annotations", json!(null)),
        ("outputSchema", json!(null)),
        ("icons", json!(null)),
        ("icons", json!("icon.png")),
        ("icons", json!([{"sizes": "48x48"}])),
        ("icons", json!([{"src": "https://a.example/i.png"}, {"src": "javascript:alert(1)"}])),
        ("icons", json!([{"src": " java\nscript:alert(1)"}])),
        ("icons", json!([{"src": "FILE:///etc/passwd"}])),
        ("icons", json!([{"src": "https://a.example/i.png", "Src": "javascript:alert(1)"}])),
        ("icons", json!([{"src": "ms-settings:privacy"}])),
        ("icons", json!([{"src": "data:text/html,<script>x</script>"}])),
        ("execution", json!({"taskSupport": "maybe"})),
        ("execution", json!([])),
        ("_meta", json!([])),
        ("_meta", json!(null)),
    ] {
        let found = fitness(&json!({"name": "t", "inputSchema": {"type": "object"}, key: value})).unwrap();
        assert_eq!(found.edits, [(key, None)], "{key}: {value}");
        assert!(found.mended.text().contains(key));
    }
    for source in [
        "https://a.example/i.png",
        "HTTP://a.example/i",
        "data:image/png;base64,AA==",
        "data:,",
        "i.png",
        "/a:b",
    ] {
        let tool = json!({"name": "t", "inputSchema": {"type": "object"}, "icons": [{"src": source}]});
        assert_eq!(fitness(&tool), None, "{source}");
    }
    let hints = json!({"name": "t", "inputSchema": {"type": "object"}, "annotations": {"title": null, "readOnlyHint": true}});
    assert_eq!(listed(&fitness(&hints).unwrap(), "annotations"), json!({"readOnlyHint": true}));
    let spelled = json!({"name": "t", "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": false, "ReadOnlyHint": true, "Audience": "x"}});
    let left = json!({"readOnlyHint": false, "Audience": "x"});
    assert_eq!(listed(&fitness(&spelled).unwrap(), "annotations"), left);
    let texts = json!({"name": "t", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": "false",
        "destructiveHint": "true", "openWorldHint": 1, "title": 2, "other": "x"}});
    let mended = json!({"readOnlyHint": false, "destructiveHint": true, "other": "x"});
    assert_eq!(listed(&fitness(&texts).unwrap(), "annotations"), mended);
}

#[test]
fn findings_are_few_and_short() {
    let properties: Map<String, Value> =
        (0..500).map(|n| (format!("{n} {}", "x".repeat(500)), json!({}))).collect();
    let found = input(&json!({"type": "object", "properties": properties})).unwrap();
    let text = found.refused.text();
    assert!(text.len() < 1000 && text.ends_with("and 496 more"), "{text}");
}
