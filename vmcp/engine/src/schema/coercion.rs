//! Repair of arguments whose types a model got wrong: numbers, booleans, lists and objects written as
//! strings.

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// Deepest level that is repaired.
const MAX_DEPTH: usize = 16;

/// Longest arguments that are repaired, 64 KiB; the work is done on the serving thread.
const MAX_BYTES: usize = 64 << 10;

/// Returns arguments with values of the type that the schema wants; `None` if nothing could be changed.
pub fn repaired(schema: &RawValue, arguments: &RawValue) -> Option<Box<RawValue>> {
    if schema.get().len().max(arguments.get().len()) > MAX_BYTES {
        return None;
    }
    let schema: Value = serde_json::from_str(schema.get()).ok()?;
    let mut value: Value = serde_json::from_str(arguments.get()).ok()?;
    coerce(&schema, &mut value).then(|| to_raw_value(&value).ok())?
}

/// Changes values to the type that the schema wants, where their text can be read as that type; returns true
/// if any changed. References and combinations of schemas are left alone.
fn coerce(schema: &Value, value: &mut Value) -> bool {
    coerce_at(schema, value, 0)
}

fn coerce_at(schema: &Value, value: &mut Value, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    let wants = |name: &str| match schema.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(types)) => types.iter().any(|each| each == name),
        _ => false,
    };
    match value {
        Value::String(text) if !wants("string") => {
            let Ok(read) = serde_json::from_str::<Value>(text.trim()) else { return false };
            let fits = match &read {
                Value::Bool(_) => wants("boolean"),
                Value::Number(number) => wants("number") || (wants("integer") && !number.is_f64()),
                Value::Array(_) => wants("array"),
                Value::Object(_) => wants("object"),
                Value::Null | Value::String(_) => false,
            };
            if fits {
                *value = read;
            }
            fits
        }
        Value::Object(entries) => {
            let Some(properties) = schema.get("properties") else { return false };
            let mut changed = false;
            for (name, entry) in entries {
                let property = properties.get(name);
                changed |= property.is_some_and(|property| coerce_at(property, entry, depth + 1));
            }
            changed
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return false };
            let mut changed = false;
            for item in items {
                changed |= coerce_at(schema, item, depth + 1);
            }
            changed
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_take_the_type_that_the_schema_wants() {
        let schema = json!({"properties": {
            "n": {"type": "integer"}, "f": {"type": ["number", "null"]}, "b": {"type": "boolean"},
            "s": {"type": "string"}, "l": {"type": "array", "items": {"type": "number"}},
            "o": {"type": "object", "properties": {"n": {"type": "integer"}}}, "any": {},
        }});
        let mut sent =
            json!({"n": "3", "f": "1.5", "b": "true", "s": "7", "l": "[1]", "o": "{}", "any": "1", "x": "1"});
        assert!(coerce(&schema, &mut sent));
        let expected =
            json!({"n": 3, "f": 1.5, "b": true, "s": "7", "l": [1], "o": {}, "any": "1", "x": "1"});
        assert_eq!(sent, expected);
        let mut deep = json!({"l": ["2"], "o": {"n": "4"}});
        assert!(coerce(&schema, &mut deep));
        assert_eq!(deep, json!({"l": [2], "o": {"n": 4}}));
    }

    #[test]
    fn what_cannot_be_read_stays() {
        let schema = json!({"properties": {"n": {"type": "integer"}, "e": {"type": "string"}}});
        let mut sent = json!({"n": "three", "e": "5"});
        assert!(!coerce(&schema, &mut sent));
        let mut sent = json!({"n": "1.5"});
        assert!(!coerce(&schema, &mut sent));
        assert_eq!(sent, json!({"n": "1.5"}));
    }
}
