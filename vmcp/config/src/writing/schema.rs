//! JSON Schema of the file, generated from the raw types: for editors, and the one table of keys and types
//! that the checker reads. A release build has the printed schema instead of the generator, which is seven
//! times as large.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::Value;

use crate::raw::RawConfig;

/// The schema of this version, as `make schema` wrote it.
const PRINTED: &str = include_str!("../../../../docs/reference/vmcp.schema.json");

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    // In a debug build, a new setting works before `make schema` has printed it. A printed schema that does
    // not parse fails a test.
    if cfg!(debug_assertions) { generated() } else { serde_json::from_str(PRINTED).unwrap_or_default() }
});

fn generated() -> Value {
    let settings = SchemaSettings::draft2020_12().with_transform(Plain);
    let mut schema = settings.into_generator().into_root_schema_for::<RawConfig>();
    schema.insert("title".to_owned(), "vmcp.yaml".into());
    schema.to_value()
}

/// Returns the JSON Schema of `vmcp.yaml`; `docs/reference/vmcp.schema.json` is its printed form.
pub fn json_schema() -> Value {
    SCHEMA.clone()
}

/// Returns the schema without a copy.
pub(crate) fn shared() -> &'static Value {
    &SCHEMA
}

/// Simplifies the generated schema: an optional key is described by its type alone, because "may be absent"
/// is not "may be null", and keywords that say nothing are left out.
#[derive(Debug, Clone)]
struct Plain;

impl Transform for Plain {
    fn transform(&mut self, schema: &mut schemars::Schema) {
        let Some(object) = schema.as_object_mut() else { return };
        if let Some(Value::Array(types)) = object.get_mut("type") {
            types.retain(|kind| kind != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                object.insert("type".to_owned(), only);
            }
        }
        if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
            choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
            if let [Value::Object(only)] = choices.as_slice() {
                let only = only.clone();
                object.remove("anyOf");
                object.extend(only);
            }
        }
        // The default of a block is the defaults of its keys, which are described there.
        if object.get("default").is_some_and(|default| default.is_null() || default.is_object()) {
            object.remove("default");
        }
        transform_subschemas(self, schema);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_build_has_the_generated_schema() {
        let printed: Value = serde_json::from_str(PRINTED).unwrap();
        assert_eq!(printed, generated(), "make schema");
        // The order of keys is that of the types, which equality does not see.
        assert_eq!(PRINTED.trim_end(), serde_json::to_string_pretty(&printed).unwrap());
    }
}
