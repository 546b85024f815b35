//! Short form of an input schema, for `detail: summary`.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

/// Returns an input schema with nothing but names, types, choices and what is required. It accepts all that
/// the whole schema accepts.
pub(crate) fn short_schema(schema: &RawValue) -> Option<Box<RawValue>> {
    let schema: Value = serde_json::from_str(schema.get()).ok()?;
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties: Map<_, _> =
        properties.into_iter().flatten().map(|(name, value)| (name.clone(), short(value))).collect();
    let mut short = json!({ "type": "object", "properties": properties });
    if let Some((short, required)) = short.as_object_mut().zip(schema.get("required")) {
        short.insert("required".to_owned(), required.clone());
    }
    to_raw_value(&short).ok()
}

fn short(property: &Value) -> Value {
    let kept = ["type", "enum", "const"]
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), property.get(*key)?.clone())));
    let mut kept: Map<_, _> = kept.collect();
    if let Some(items) = property.get("items").filter(|items| items.get("type").is_some()) {
        kept.insert("items".to_owned(), short(items));
    }
    Value::Object(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_schema_has_names_types_and_choices() {
        let schema = r#"{"$schema":"x","type":"object","properties":{"a":{"type":"string","description":"long"},
            "b":{"type":"array","items":{"type":"integer","minimum":1}},"c":{"enum":["x"]}},"required":["a"],"$defs":{}}"#;
        let short = short_schema(&RawValue::from_string(schema.to_owned()).unwrap()).unwrap();
        assert_eq!(
            short.get(),
            r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"array","items":{"type":"integer"}},"c":{"enum":["x"]}},"required":["a"]}"#
        );
    }
}
