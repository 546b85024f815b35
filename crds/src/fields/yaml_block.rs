//! Parts of `vmcp.yaml` inside of a resource.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};

/// A block of `vmcp.yaml`, kept as written: its schema is the one of the type in `vmcp-model`, its values go into the
/// file, and the file's own validator judges them. So both accept the same keys, and one that slipped past an older
/// schema is reported by its path instead of making the whole resource unreadable.
pub type Block = Map<String, Value>;

/// The schema of `T` without these keys.
pub(crate) fn schema_without<T: JsonSchema>(generator: &mut SchemaGenerator, keys: &[&str]) -> Schema {
    retain::<T>(generator, |key| !keys.contains(&key))
}

/// The schema of `T` with only these keys.
pub(crate) fn schema_only<T: JsonSchema>(generator: &mut SchemaGenerator, keys: &[&str]) -> Schema {
    retain::<T>(generator, |key| keys.contains(&key))
}

fn retain<T: JsonSchema>(generator: &mut SchemaGenerator, keep: impl Fn(&str) -> bool) -> Schema {
    let mut schema = T::json_schema(generator);
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|key, _| keep(key));
    }
    schema
}
