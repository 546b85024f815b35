//! Corpora of arguments that models send, against schemas as pydantic, zod and Go's jsonschema write them.

use serde_json::json;

use super::*;

fn mended(schema: &Value, sent: &Value) -> Mended {
    let validator = jsonschema::validator_for(schema).unwrap();
    mend(&validator, sent, MAX_VALIDATIONS, |_| true)
}

/// Checks each value against the property of its name: sent, and as the server gets it.
fn check(schema: &Value, corpus: &[(&str, Value, Value)]) {
    for (name, sent, expected) in corpus {
        let mut arguments = json!({ *name: sent });
        arguments.as_object_mut().unwrap().extend(required(schema, name));
        let Mended { value, fit } = mended(schema, &arguments);
        assert_eq!(fit, Fit::Whole, "{name}: {sent} became {value}");
        // Compared as text, in which 3 and 3.0 differ. `null` stands for a property that is left out.
        let got = value.get(name).unwrap_or(&Value::Null);
        assert_eq!(got.to_string(), expected.to_string(), "{name}: {sent}");
    }
}

/// Returns the required properties but `except`, with the text "x".
fn required(schema: &Value, except: &str) -> serde_json::Map<String, Value> {
    let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    names.filter(|name| *name != except).map(|name| (name.to_owned(), json!("x"))).collect()
}

/// A tool of a FastMCP server, as pydantic writes it.
fn pydantic() -> Value {
    let optional = |schema: Value| json!({"anyOf": [schema, {"type": "null"}], "default": null});
    json!({
        "$defs": {
            "Filter": {"title": "Filter", "type": "object", "required": ["owner"], "properties": {
                "owner": {"type": "string"}, "top": optional(json!({"type": "integer"})),
                "deep": {"type": "boolean", "default": false}}},
            "Mode": {"enum": ["fast", "exact"], "type": "string"},
            "Level": {"enum": [1, 2, 3], "type": "integer"},
            "Cat": {"type": "object", "required": ["kind", "lives"],
                "properties": {"kind": {"const": "cat", "type": "string"}, "lives": {"type": "integer"}}},
            "Dog": {"type": "object", "required": ["kind", "loud"],
                "properties": {"kind": {"const": "dog", "type": "string"}, "loud": {"type": "boolean"}}},
            "Node": {"type": "object", "properties": {
                "value": {"type": "integer"}, "next": optional(json!({"$ref": "#/$defs/Node"}))}}},
        "type": "object", "required": ["query"],
        "properties": {
            "query": {"type": "string"},
            "limit": optional(json!({"type": "integer", "minimum": 1})),
            "ratio": optional(json!({"type": "number"})),
            "price": {"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^\\d+$"}]},
            "urgent": {"type": "boolean", "default": false},
            "ids": optional(json!({"type": "array", "items": {"type": "integer"}})),
            "tags": {"type": "array", "items": {"type": "string"}},
            "filter": optional(json!({"$ref": "#/$defs/Filter"})),
            "filters": {"type": "array", "items": {"$ref": "#/$defs/Filter"}},
            "mode": optional(json!({"$ref": "#/$defs/Mode"})),
            "level": {"allOf": [{"$ref": "#/$defs/Level"}], "default": 1},
            "scores": {"type": "object", "additionalProperties": {"type": "number"}},
            "groups": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}},
            "pair": {"type": "array", "minItems": 2, "maxItems": 2,
                "prefixItems": [{"type": "string"}, {"type": "integer"}]},
            "pet": {"discriminator": {"propertyName": "kind"},
                "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]},
            "key": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "many": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "integer"}]},
            "tree": {"$ref": "#/$defs/Node"},
        },
    })
}

#[test]
fn pydantic_schemas_take_what_models_send() {
    check(
        &pydantic(),
        &[
            ("limit", json!("5"), json!(5)),
            ("limit", json!(" 5 "), json!(5)),
            ("limit", json!("5.0"), json!(5)),
            ("limit", json!(5.0), json!(5)),
            ("limit", json!("null"), json!(null)),
            ("limit", json!("None"), json!(null)),
            ("limit", json!(""), json!(null)),
            ("ratio", json!("0.5"), json!(0.5)),
            ("ratio", json!("3.0"), json!(3.0)),
            ("ratio", json!(3.0), json!(3.0)),
            ("price", json!("12"), json!("12")),
            ("urgent", json!("True"), json!(true)),
            ("urgent", json!("false"), json!(false)),
            ("urgent", json!(null), json!(null)),
            ("ids", json!("[1, 2]"), json!([1, 2])),
            ("ids", json!(["1", "2"]), json!([1, 2])),
            ("ids", json!("[\"1\", 2.0]"), json!([1, 2])),
            ("ids", json!("7"), json!([7])),
            ("tags", json!("red"), json!(["red"])),
            ("tags", json!("[\"red\"]"), json!(["red"])),
            ("tags", json!([1, "two"]), json!(["1", "two"])),
            ("filter", json!("{\"owner\": \"ann\"}"), json!({"owner": "ann"})),
            ("filter", json!({"owner": "ann", "top": "3"}), json!({"owner": "ann", "top": 3})),
            (
                "filter",
                json!("{\"owner\": \"ann\", \"deep\": \"True\"}"),
                json!({"owner": "ann", "deep": true}),
            ),
            ("filters", json!({"owner": "ann"}), json!([{"owner": "ann"}])),
            ("filters", json!("[{\"owner\": \"ann\", \"top\": \"1\"}]"), json!([{"owner": "ann", "top": 1}])),
            ("mode", json!(""), json!(null)),
            ("level", json!("2"), json!(2)),
            ("scores", json!({"a": "1.5"}), json!({"a": 1.5})),
            ("scores", json!("{\"a\": \"2\"}"), json!({"a": 2})),
            ("groups", json!({"a": "1", "b": ["2"]}), json!({"a": [1], "b": [2]})),
            ("pair", json!(["a", "1"]), json!(["a", 1])),
            ("pair", json!("[\"a\", \"1\"]"), json!(["a", 1])),
            ("pet", json!({"kind": "dog", "loud": "true"}), json!({"kind": "dog", "loud": true})),
            ("pet", json!("{\"kind\": \"cat\", \"lives\": \"9\"}"), json!({"kind": "cat", "lives": 9})),
            ("key", json!("7"), json!("7")),
            ("many", json!("7"), json!(7)),
            (
                "tree",
                json!({"value": "1", "next": {"value": "2"}}),
                json!({"value": 1, "next": {"value": 2}}),
            ),
            ("query", json!(42), json!("42")),
        ],
    );
}

/// A tool of a TypeScript server, as zod 3 and zod 4 write it.
fn zod() -> Value {
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object", "additionalProperties": false, "required": ["path"],
        "properties": {
            "path": {"type": "string"},
            "count": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9_007_199_254_740_991_i64},
            "size": {"type": ["number", "null"]},
            "follow": {"type": "boolean", "default": true},
            "since": {"type": "string", "format": "date-time"},
            "edits": {"type": "array", "minItems": 1, "items": {"type": "object", "additionalProperties": false,
                "required": ["oldText"], "properties": {"oldText": {"type": "string"}, "line": {"type": "integer"}}}},
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
            "limits": {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"type": "number"}},
            "point": {"type": "array", "minItems": 2, "maxItems": 2, "items": [{"type": "number"}, {"type": "number"}]},
            "one": {"anyOf": [{"type": "number", "const": 1}, {"type": "number", "const": 2}]},
            "either": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
            "shape": {"anyOf": [
                {"type": "object", "properties": {"type": {"const": "circle"}, "r": {"type": "number"}}, "required": ["type", "r"]},
                {"type": "object", "properties": {"type": {"const": "box"}, "w": {"type": "number"}}, "required": ["type", "w"]}]},
            "both": {"allOf": [
                {"type": "object", "properties": {"a": {"type": "integer"}}},
                {"type": "object", "properties": {"b": {"type": "boolean"}}}]},
            "again": {"type": "array", "items": {"$ref": "#/properties/edits/items"}},
            "flag": {"type": "string", "enum": ["true", "false", "auto"]},
        },
    })
}

#[test]
fn zod_schemas_take_what_models_send() {
    check(
        &zod(),
        &[
            ("count", json!("3"), json!(3)),
            ("count", json!(3.0), json!(3)),
            ("count", json!(null), json!(null)),
            ("count", json!(""), json!(null)),
            ("size", json!("10"), json!(10)),
            ("size", json!(null), json!(null)),
            ("follow", json!("TRUE"), json!(true)),
            ("since", json!(null), json!(null)),
            ("edits", json!({"oldText": "a"}), json!([{"oldText": "a"}])),
            ("edits", json!("[{\"oldText\": \"a\", \"line\": \"2\"}]"), json!([{"oldText": "a", "line": 2}])),
            ("edits", json!([{"oldText": "a", "line": null}]), json!([{"oldText": "a"}])),
            ("edits", json!(["{\"oldText\": \"a\"}"]), json!([{"oldText": "a"}])),
            ("env", json!("{\"A\": 1}"), json!({"A": "1"})),
            ("limits", json!({"a": "1"}), json!({"a": 1})),
            ("point", json!(["1", "2.5"]), json!([1, 2.5])),
            ("one", json!("2"), json!(2)),
            ("either", json!("a"), json!("a")),
            ("shape", json!({"type": "box", "w": "2"}), json!({"type": "box", "w": 2})),
            ("shape", json!("{\"type\": \"circle\", \"r\": 1}"), json!({"type": "circle", "r": 1})),
            ("both", json!({"a": "1", "b": "true"}), json!({"a": 1, "b": true})),
            ("again", json!([{"oldText": "a", "line": "7"}]), json!([{"oldText": "a", "line": 7}])),
            ("flag", json!(true), json!("true")),
            ("unknown", json!(null), json!(null)),
        ],
    );
}

/// A tool of a Go server, as `google/jsonschema-go` and `invopop/jsonschema` write it.
fn go() -> Value {
    json!({
        "type": "object", "additionalProperties": false, "required": ["owner"],
        "$defs": {"Labels": {"type": "array", "items": {"type": "string"}}},
        "properties": {
            "owner": {"type": "string"},
            "page": {"type": "integer"},
            "weight": {"type": "number"},
            "draft": {"type": ["null", "boolean"]},
            "labels": {"type": ["null", "array"], "items": {"type": "string"}},
            "more": {"$ref": "#/$defs/Labels"},
            "meta": {"type": ["null", "object"], "additionalProperties": {"type": "integer"}},
            "headers": {"type": "object", "patternProperties": {"^X-": {"type": "integer"}}},
            "any": true,
            "when": {"type": "object", "properties": {"unit": {"enum": ["s", "m"]}, "n": {}},
                "if": {"properties": {"unit": {"const": "s"}}}, "then": {"properties": {"n": {"type": "integer"}}}},
        },
    })
}

#[test]
fn go_schemas_take_what_models_send() {
    check(
        &go(),
        &[
            ("page", json!("2"), json!(2)),
            ("page", json!(2.0), json!(2)),
            ("page", json!("2e1"), json!(20)),
            ("weight", json!("-1.5"), json!(-1.5)),
            ("draft", json!("false"), json!(false)),
            ("draft", json!(null), json!(null)),
            ("labels", json!("[\"a\"]"), json!(["a"])),
            ("labels", json!("bug"), json!(["bug"])),
            ("more", json!("bug"), json!(["bug"])),
            ("meta", json!("{\"a\": \"1\"}"), json!({"a": 1})),
            ("headers", json!({"X-A": "1", "Y": "1"}), json!({"X-A": 1, "Y": "1"})),
            ("any", json!("1"), json!("1")),
            ("any", json!(1.0), json!(1.0)),
            ("when", json!({"unit": "s", "n": "5"}), json!({"unit": "s", "n": 5})),
            ("when", json!({"unit": "m", "n": "5"}), json!({"unit": "m", "n": "5"})),
        ],
    );
}

#[test]
fn null_that_means_something_stays() {
    let schema = json!({"properties": {"assignee": {"type": ["string", "null"]}, "x": {}}});
    let sent = json!({"assignee": null, "x": null});
    assert_eq!(mended(&schema, &sent).value, sent);
}

#[test]
fn a_mistake_that_only_the_model_can_correct_is_named() {
    for (sent, named) in [
        (json!({"query": null}), "query"),
        (json!({}), "query"),
        (json!({"query": {"a": 1}}), "string"),
        (json!({"query": "x", "mode": "slow"}), "mode"),
        (json!({"query": "x", "limit": "0"}), "limit"),
        (json!({"query": "x", "filter": "{\"top\": 1}"}), "filter"),
        (json!({"query": "x", "pet": {"kind": "cow"}}), "pet"),
        (json!({"query": "x", "tags": [["a"]]}), "tags"),
    ] {
        let Mended { value, fit } = mended(&pydantic(), &sent);
        assert_eq!(fit, Fit::No, "{sent} became {value}");
        let validator = jsonschema::validator_for(&pydantic()).unwrap();
        let errors: Vec<_> =
            validator.iter_errors(&value).map(|error| format!("{} {error}", error.instance_path())).collect();
        assert!(errors.iter().any(|error| error.contains(named)), "{sent}: {errors:?}");
    }
}

#[test]
fn a_scalar_that_no_type_fits_is_left_to_the_server() {
    for sent in [
        json!({"query": "x", "limit": "five"}),
        json!({"query": "x", "urgent": "yes"}),
        json!({"query": true}),
        json!({"query": "x", "filter": "owner=ann"}),
        json!({"query": "x", "scores": {"a": "much"}}),
    ] {
        let Mended { value, fit } = mended(&pydantic(), &sent);
        assert_eq!((fit, &value), (Fit::ScalarsLeft, &sent));
    }
    // The rest is mended all the same.
    let sent = json!({"query": "x", "limit": "five", "urgent": "True"});
    assert_eq!(mended(&pydantic(), &sent).value, json!({"query": "x", "limit": "five", "urgent": true}));
}

#[test]
fn large_numbers_keep_their_digits() {
    let schema = json!({"properties": {"id": {"type": "integer"}, "name": {"type": "string"}}});
    let sent = json!({"id": "9007199254740993", "name": 9_007_199_254_740_993_i64});
    assert_eq!(
        mended(&schema, &sent).value,
        json!({"id": 9_007_199_254_740_993_i64, "name": "9007199254740993"})
    );
}

#[test]
fn the_work_is_bounded_by_the_number_of_validations() {
    // A union of many branches in each of many places, none of which can be mended for good.
    let branches: Vec<_> = (0..200).map(|n| json!({"type": "integer", "minimum": n + 1000})).collect();
    let schema = json!({"additionalProperties": {"anyOf": branches}});
    let sent: Value = (0..200).map(|n| (n.to_string(), json!("1"))).collect::<serde_json::Map<_, _>>().into();
    let start = std::time::Instant::now();
    assert_eq!(mended(&schema, &sent).fit, Fit::No);
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

#[test]
fn deep_text_is_read_level_by_level_and_no_deeper() {
    let nested = (0..20).fold(json!(1), |inner, _| json!({"next": inner.to_string()}));
    let schema =
        json!({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "integer"}]}}});
    let Mended { value, .. } = mended(&schema, &nested);
    assert!(value.pointer(&"/next".repeat(4)).is_some());
    let deep = json!({"l": format!("{}{}", "[".repeat(100), "]".repeat(100))});
    let schema = json!({"properties": {"l": {"type": ["array", "object"]}}});
    assert_eq!(mended(&schema, &deep).value["l"], json!([deep["l"]]), "it is taken for a text");
}
