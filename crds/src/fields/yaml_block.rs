//! Blocks of `vmcp.yaml` inside a resource.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};

/// A block of `vmcp.yaml`, kept as written.
///
/// Its schema is that of the type in `vmcp-config`, so that both accept the same keys. Its values go into the
/// file, whose own validator checks them: a key that passed an older schema is reported by its path instead
/// of making the whole resource unreadable.
pub type Block = Map<String, Value>;

/// Escapes `${` and `$$`, which would be references in `vmcp.yaml`, so that values arrive as written.
pub(crate) fn escape(value: Value) -> Value {
    match value {
        Value::String(text) if text.contains("${") || text.contains("$$") => text.replace('$', "$$").into(),
        Value::Object(entries) => {
            Value::Object(entries.into_iter().map(|(key, value)| (key, escape(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(escape).collect()),
        other => other,
    }
}

/// Returns the schema of `T` without these keys.
pub(crate) fn schema_without<T: JsonSchema>(generator: &mut SchemaGenerator, keys: &[&str]) -> Schema {
    retain::<T>(generator, |key| !keys.contains(&key))
}

/// Returns the schema of `T` with only these keys.
pub(crate) fn schema_only<T: JsonSchema>(generator: &mut SchemaGenerator, keys: &[&str]) -> Schema {
    retain::<T>(generator, |key| keys.contains(&key))
}

/// Removes a key of a block from a schema whose subschemas are inlined.
pub(crate) fn remove_nested(schema: &mut Schema, block: &str, key: &str) {
    let block = schema.get_mut("properties").and_then(|all| all.get_mut(block));
    if let Some(Value::Object(properties)) = block.and_then(|block| block.get_mut("properties")) {
        properties.retain(|name, _| name != key);
    }
}

fn retain<T: JsonSchema>(generator: &mut SchemaGenerator, keep: impl Fn(&str) -> bool) -> Schema {
    let mut schema = T::json_schema(generator);
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|key, _| keep(key));
    }
    schema
}
