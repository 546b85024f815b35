//! Parameters of a composite tool: their JSON Schema and its defaults.

use serde_json::{Map, Value, json};

/// Returns the schema of the arguments: as written, and an object in any case.
pub(super) fn schema(written: &Map<String, Value>) -> Value {
    let mut schema = written.clone();
    schema.entry("type").or_insert_with(|| json!("object"));
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
