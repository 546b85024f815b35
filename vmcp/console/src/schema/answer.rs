//! Answers to questions of servers: the values that their form begins with, and the check before one is sent.

use serde_json::{Map, Value};

use super::choices::{Choice, entries, texts};
use super::effective::{effective, types};
use crate::text;

/// Most values that a form begins with.
const MAX_DEFAULTS: usize = 200;

/// Returns the texts of the fields that a schema has a default for.
pub fn defaults(schema: &Value) -> Vec<(String, String)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let of_property = |(name, property): (&String, &Value)| {
        let default = property.get("default").or_else(|| effective(schema, property).get("default"));
        let values = match default {
            Some(Value::Array(list)) if entries(schema, effective(schema, property)).is_some() => {
                list.clone()
            }
            Some(value) if value.is_string() || value.is_number() || value.is_boolean() => {
                vec![value.clone()]
            }
            _ => Vec::new(),
        };
        let text = |value: Value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        values.into_iter().map(|value| (name.clone(), text(value))).collect::<Vec<_>>()
    };
    properties.into_iter().flatten().flat_map(of_property).take(MAX_DEFAULTS).collect()
}

/// Returns the texts of the fields that a schema requires and has a default for, as libraries of servers
/// write arguments with a default. A long default, or one with hidden characters, is left out: a person
/// would send a text that they cannot read.
pub fn required_defaults(schema: &Value) -> Vec<(String, String)> {
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is_required = |name: &str| required.iter().any(|known| known == name);
    let mut defaults = defaults(schema);
    let is_readable = |value: &str| text::inert(value, text::MAX_LINE) == value;
    defaults.retain(|(name, value)| is_required(name) && is_readable(value));
    defaults
}

/// Checks the content of an answer: required fields, types and choices. The error names the field. The server
/// checks the rest.
pub fn check(schema: &Value, content: &Map<String, Value>) -> Result<(), String> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    if let Some(missing) = required.filter_map(Value::as_str).find(|name| !content.contains_key(*name)) {
        return Err(format!("`{missing}` is required: fill it in, or decline"));
    }
    for (name, value) in content {
        let Some(property) = schema.get("properties").and_then(|properties| properties.get(name)) else {
            continue;
        };
        let property = effective(schema, property);
        let types = types(property);
        if !types.is_empty() && !types.iter().any(|kind| is_of(kind, value)) {
            return Err(format!("`{name}` must be a value of the type {}", types.join(" or ")));
        }
        let is_choice = |known: &[Choice]| known.iter().any(|choice| is_same(&choice.json, value));
        if !value.is_null() && texts(property).is_some_and(|known| !is_choice(&known)) {
            return Err(format!("`{name}` must be one of its choices"));
        }
    }
    Ok(())
}

/// Returns true for equal values; numbers are equal however they are written.
fn is_same(one: &Value, other: &Value) -> bool {
    let are_numbers = one.as_f64().zip(other.as_f64());
    one == other || are_numbers.is_some_and(|(one, other)| one.total_cmp(&other).is_eq())
}

/// Returns true if a value is of a type of JSON schema; an unknown type admits every value.
fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_form_begins_with_its_defaults() {
        let schema = json!({"properties": {
            "name": {"type": "string", "default": "Ada"}, "age": {"type": "integer", "default": 36},
            "sure": {"type": "boolean", "default": true}, "other": {"type": "string"},
            "several": {"type": "array", "items": {"enum": ["a", "b"]}, "default": ["b", "a"]},
            "list": {"type": "array", "default": [1]},
        }});
        let pairs = defaults(&schema);
        let shown: Vec<_> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected = [("age", "36"), ("name", "Ada"), ("several", "a"), ("several", "b"), ("sure", "true")];
        let mut sorted = shown.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected);
        let tool = json!({"required": ["age", "other"], "properties": schema["properties"]});
        assert_eq!(required_defaults(&tool), [("age".to_owned(), "36".to_owned())]);
        assert!(required_defaults(&schema).is_empty());
        for unreadable in ["a\u{202e}b".to_owned(), "x".repeat(text::MAX_LINE + 1)] {
            let tool =
                json!({"required": ["a"], "properties": {"a": {"type": "string", "default": unreadable}}});
            assert!(required_defaults(&tool).is_empty(), "{unreadable}");
        }
    }

    #[test]
    fn an_answer_that_does_not_fit_is_named_by_its_field() {
        let schema = json!({"required": ["name"], "properties": {
            "name": {"type": "string"}, "age": {"type": "integer"}, "kind": {"enum": ["a", "b"]},
            "level": {"enum": [1, 2]},
        }});
        let checked = |content: Value| check(&schema, content.as_object().unwrap());
        assert_eq!(checked(json!({"name": "Ada", "age": 36.0, "kind": "a", "further": []})), Ok(()));
        assert_eq!(checked(json!({"name": "Ada", "level": 2.0})), Ok(()));
        for (content, field) in [
            (json!({"age": 36}), "`name` is required"),
            (json!({"name": 7}), "`name` must be"),
            (json!({"name": "Ada", "age": "old"}), "`age` must be"),
            (json!({"name": "Ada", "age": 1.5}), "`age` must be"),
            (json!({"name": "Ada", "kind": "c"}), "`kind` must be one"),
            (json!({"name": "Ada", "kind": "a", "level": "high"}), "`level` must be one"),
            (json!({"name": "Ada", "level": 3}), "`level` must be one"),
        ] {
            let refused = checked(content.clone()).unwrap_err();
            assert!(refused.starts_with(field), "{content}: {refused}");
        }
    }
}
