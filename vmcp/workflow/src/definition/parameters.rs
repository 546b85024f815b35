//! Parameters of a composite tool: their JSON Schema and its defaults.

use serde_json::{Map, Value, json};

use crate::mistakes::Mistakes;

/// Reports a schema that MCP does not take for arguments: one such tool costs clients their whole list.
pub(super) fn check(written: &Map<String, Value>, mistakes: &mut Mistakes) {
    if let Some(kind) = written.get("type").filter(|kind| kind.as_str() != Some("object")) {
        let remedy = "write `type: object`, with a property for each argument";
        mistakes.add("parameters.type", format!("{kind} is no type for arguments"), remedy);
    }
    let Some(properties) = written.get("properties") else { return };
    let Some(properties) = properties.as_object() else {
        let remedy = "write the name of each argument with its schema";
        mistakes.add("parameters.properties", "not an object", remedy);
        return;
    };
    for (name, schema) in properties {
        if !schema.is_object() && !schema.is_boolean() {
            let path = format!("parameters.properties.{name}");
            mistakes.add(path, "not a schema", "write an object, such as `{ type: string }`");
        }
    }
}

/// Returns the schema of the arguments: as written, and an object in any case. An argument with a default may
/// be left out.
pub(super) fn schema(written: &Map<String, Value>) -> Value {
    let mut schema = written.clone();
    schema.entry("type").or_insert_with(|| json!("object"));
    let properties = written.get("properties").and_then(Value::as_object);
    let has_default = |name: &Value| {
        let property = name.as_str().and_then(|name| properties?.get(name));
        property.is_some_and(|property| property.get("default").is_some())
    };
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !has_default(name));
    }
    Value::Object(schema)
}

/// Adds the defaults of parameters that the caller left out.
pub(super) fn with_defaults(
    schema: &Map<String, Value>,
    mut arguments: Map<String, Value>,
) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if let Some(default) = property.get("default")
            && !arguments.contains_key(name)
        {
            arguments.insert(name.clone(), default.clone());
        }
    }
    arguments
}
