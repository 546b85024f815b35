//! Properties as schemas of real servers write them: a type behind a reference, or one type or null.

use serde_json::Value;

/// Steps from a property to its type: references and alternatives.
const MAX_STEPS: usize = 8;
/// Types of one schema; further ones are left out.
const MAX_TYPES: usize = 20;

/// Keys with which a schema says by itself what it holds. Alternatives beside them add conditions only.
const OWN_KEYS: [&str; 5] = ["type", "enum", "const", "properties", "items"];

/// Returns the schema that says what a property holds. References within the schema are followed, and so is
/// an only alternative beside null, as SDKs write an optional argument. Another schema stays as it is.
pub(super) fn effective<'a>(root: &'a Value, property: &'a Value) -> &'a Value {
    let mut schema = property;
    for _ in 0..MAX_STEPS {
        let Some(inner) = reference(root, schema).or_else(|| only_alternative(schema)) else { break };
        schema = inner;
    }
    schema
}

/// Returns the schema within `root` to which a schema refers.
pub(super) fn reference<'a>(root: &'a Value, schema: &Value) -> Option<&'a Value> {
    let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
    root.pointer(pointer)
}

fn only_alternative(schema: &Value) -> Option<&Value> {
    if OWN_KEYS.iter().any(|key| schema.get(*key).is_some()) {
        return None;
    }
    let alternatives = ["anyOf", "oneOf", "allOf"].iter().find_map(|key| schema.get(*key)?.as_array())?;
    let mut others = alternatives.iter().filter(|schema| !is_null(schema));
    let first = others.next()?;
    others.next().is_none().then_some(first)
}

/// Returns true for the schema of null alone.
pub(super) fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null")
}

/// Returns the types that a schema names, also those of its alternatives, each once; null is left out.
pub(super) fn types(schema: &Value) -> Vec<&str> {
    let own = match schema.get("type") {
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => {
            let alternatives = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(*key)?.as_array());
            let names = alternatives.into_iter().flatten();
            // An alternative that names no type may be anything.
            names.map(|inner| inner.get("type").and_then(Value::as_str).unwrap_or("any")).collect()
        }
    };
    let mut names: Vec<&str> = Vec::new();
    for name in own {
        if name != "null" && names.len() < MAX_TYPES && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_and_optional_types_lead_to_the_type() {
        let root = json!({"$defs": {
            "Kind": {"enum": ["a", "b"]}, "loop": {"$ref": "#/$defs/loop"}, "a/b": {"type": "integer"},
        }});
        for (property, expected) in [
            (json!({"$ref": "#/$defs/Kind"}), json!({"enum": ["a", "b"]})),
            (json!({"$ref": "#/$defs/a~1b"}), json!({"type": "integer"})),
            (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), json!({"type": "string"})),
            (json!({"allOf": [{"$ref": "#/$defs/Kind"}], "default": "a"}), json!({"enum": ["a", "b"]})),
            (json!({"$ref": "#/$defs/loop"}), json!({"$ref": "#/$defs/loop"})),
            (json!({"$ref": "https://example.com/x"}), json!({"$ref": "https://example.com/x"})),
            (json!(true), json!(true)),
            (
                json!({"type": "object", "properties": {"a": {}}, "allOf": [{"if": {}, "then": {}}]}),
                json!({"type": "object", "properties": {"a": {}}, "allOf": [{"if": {}, "then": {}}]}),
            ),
            (
                json!({"properties": {"a": {}}, "anyOf": [{"required": ["a"]}]}),
                json!({"properties": {"a": {}}, "anyOf": [{"required": ["a"]}]}),
            ),
        ] {
            assert_eq!(*effective(&root, &property), expected, "{property}");
        }
        let several = json!({"oneOf": [{"type": "string"}, {"type": "number"}]});
        assert_eq!(effective(&root, &several), &several);
    }

    #[test]
    fn types_are_those_of_all_alternatives_but_null() {
        for (schema, expected) in [
            (json!({"type": ["string", "null"]}), vec!["string"]),
            (
                json!({"oneOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]}),
                vec!["string", "number"],
            ),
            (json!({"anyOf": [{"enum": [1]}]}), vec!["any"]),
            (json!({"anyOf": [{"type": "string", "format": "uri"}, {"type": "string"}]}), vec!["string"]),
            (json!({}), vec![]),
        ] {
            assert_eq!(types(&schema), expected, "{schema}");
        }
    }
}
