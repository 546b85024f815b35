//! Examples of values, as the empty fields of a form show them.

use serde_json::{Map, Value};

use super::choices::texts;
use super::effective::{effective, types};
use super::members::{is_object, members};

/// Most levels of an example.
const MAX_DEPTH: usize = 3;
/// Most values of an example.
const MAX_VALUES: usize = 12;
/// Most properties of an object of an example, where it demands none.
const MAX_OPTIONAL: usize = 3;
/// Most characters of an example; a longer one is left out.
const MAX_CHARS: usize = 200;

/// Returns JSON that fits the types of a schema; `None` if that would be long or says nothing.
pub(super) fn example(root: &Value, schema: &Value) -> Option<String> {
    let mut left = MAX_VALUES;
    let text = value(root, schema, MAX_DEPTH, &mut left).filter(|value| !value.is_null())?.to_string();
    text.chars().nth(MAX_CHARS).is_none().then_some(text)
}

/// Returns a text of a format of JSON schema.
pub(super) fn of_format(schema: &Value) -> Option<&'static str> {
    Some(match schema.get("format")?.as_str()? {
        "date" => "2026-01-31",
        "date-time" => "2026-01-31T08:00:00Z",
        "time" => "08:00:00Z",
        "duration" => "PT15M",
        "email" | "idn-email" => "name@example.com",
        "hostname" | "idn-hostname" => "www.example.com",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "uri" | "uri-reference" | "iri" | "url" => "https://example.com/",
        "uuid" => "123e4567-e89b-12d3-a456-426614174000",
        _ => return None,
    })
}

/// Returns a value of a schema; `None` beyond the bounds.
fn value(root: &Value, schema: &Value, depth: usize, left: &mut usize) -> Option<Value> {
    *left = left.checked_sub(1)?;
    let inner = effective(root, schema);
    if let Some(choice) = texts(inner).and_then(|choices| choices.into_iter().next()) {
        return Some(choice.json);
    }
    if is_object(root, schema) {
        return object(root, schema, depth, left);
    }
    Some(match types(inner).first().copied() {
        Some("string") => of_format(inner).unwrap_or("text").into(),
        Some("integer") => 1.into(),
        Some("number") => 1.5.into(),
        Some("boolean") => true.into(),
        Some("array") => {
            let depth = depth.checked_sub(1)?;
            if let Some(places) = inner.get("prefixItems").and_then(Value::as_array) {
                return places.iter().map(|place| value(root, place, depth, left)).collect();
            }
            let entry = inner.get("items").and_then(|items| value(root, items, depth, left));
            entry.filter(|entry| !entry.is_null()).into_iter().collect()
        }
        _ => Value::Null,
    })
}

fn object(root: &Value, schema: &Value, depth: usize, left: &mut usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let members = members(root, schema);
    let demanded = members.list.iter().filter(|member| members.is_required(member.name)).count();
    let is_wanted = |name: &str| demanded == 0 || members.is_required(name);
    let wanted = members.list.iter().filter(|member| is_wanted(member.name));
    let mut object = Map::new();
    for member in wanted.take(if demanded == 0 { MAX_OPTIONAL } else { MAX_VALUES }) {
        object.insert(member.name.to_owned(), value(root, &member.schema, depth, left)?);
    }
    Some(object.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_example_has_the_types_of_its_schema() {
        let root = json!({"$defs": {
            "Row": {"type": "object", "required": ["name", "when"], "properties": {
                "name": {"type": "string"}, "when": {"type": "string", "format": "date"},
                "note": {"type": "string"},
            }},
            "Loop": {"type": "object", "required": ["next"],
                "properties": {"next": {"$ref": "#/$defs/Loop"}}},
        }});
        for (schema, expected) in [
            (json!({"type": "array", "items": {"type": "string"}}), Some(r#"["text"]"#)),
            (
                json!({"type": "array", "items": {"$ref": "#/$defs/Row"}}),
                Some(r#"[{"name":"text","when":"2026-01-31"}]"#),
            ),
            (json!({"type": "array"}), Some("[]")),
            (
                json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}, {}]}),
                Some(r#"["text",1,null]"#),
            ),
            (json!({"type": "object", "additionalProperties": {"type": "number"}}), Some("{}")),
            (json!({"oneOf": [{"type": "integer"}, {"type": "array"}]}), Some("1")),
            (json!({"enum": ["a", "b"]}), Some(r#""a""#)),
            (json!({"$ref": "#/$defs/Loop"}), None),
            (json!({}), None),
            (json!(true), None),
            (json!({"type": "array", "items": {"const": "x".repeat(250)}}), None),
        ] {
            assert_eq!(example(&root, &schema).as_deref(), expected, "{schema}");
        }
    }
}
