//! Schema of a composite tool in a resource: that of `vmcp.yaml`, with the limits that the API server checks.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use vmcp_config::raw::RawCompositeTool;

use super::cel_rules::{Rule, rules};
use crate::fields::duration::DURATION;

/// Names of tools and of steps.
const NAME: &str = "^[a-zA-Z0-9_.-]{1,64}$";

/// A step that waits for itself. Longer circles are found by the operator.
const WAITS_FOR_ITSELF: Rule = (
    "!has(self.dependsOn) || !(self.id in self.dependsOn)",
    "the step waits for itself; remove its id from dependsOn",
);

/// Schema of a composite tool, for [`Block`](super::yaml_block::Block)s that hold one.
pub(crate) struct CompositeToolSchema;

impl JsonSchema for CompositeToolSchema {
    fn schema_name() -> Cow<'static, str> {
        "CompositeToolBlock".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = RawCompositeTool::json_schema(generator);
        let Some(tool) = schema.as_object_mut() else { return schema };
        let name = json!({ "pattern": NAME, "maxLength": 64 });
        let duration = json!({ "pattern": DURATION, "maxLength": 32 });
        // `required` and `default` contradict each other: the API server would add an empty name.
        let without_default = |path: &[&str], tool: &mut Map<String, Value>| {
            if let Some(field) = field(tool, path) {
                field.remove("default");
            }
        };
        without_default(&["name"], tool);
        without_default(&["steps"], tool);
        for (path, limits) in [
            (&[][..], json!({ "required": ["name", "steps"] })),
            (&["name"], name.clone()),
            (&["timeout"], duration.clone()),
            (
                &["steps"],
                json!({
                    "minItems": 1, "maxItems": 100,
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
                }),
            ),
            (
                &["steps", "[]"],
                json!({ "required": ["id"], "x-kubernetes-validations": rules(&[WAITS_FOR_ITSELF]) }),
            ),
            (&["steps", "[]", "id"], name),
            (&["steps", "[]", "dependsOn"], json!({ "maxItems": 100 })),
            (&["steps", "[]", "dependsOn", "[]"], json!({ "maxLength": 64 })),
            (&["steps", "[]", "timeout"], duration.clone()),
            (&["steps", "[]", "step", "timeout"], duration.clone()),
            (&["steps", "[]", "onError", "retryDelay"], duration.clone()),
            (&["steps", "[]", "step", "onError", "retryDelay"], duration),
            (&["steps", "[]", "onError", "retryCount"], json!({ "maximum": 10 })),
            (&["steps", "[]", "step", "onError", "retryCount"], json!({ "maximum": 10 })),
            (&["steps", "[]", "maxIterations"], json!({ "minimum": 1, "maximum": 1000 })),
            (&["steps", "[]", "maxParallel"], json!({ "minimum": 1, "maximum": 50 })),
            (&["output"], json!({ "required": ["properties"] })),
            (&["output", "properties", "{}"], json!({ "required": ["type"] })),
        ] {
            if let (Some(field), Value::Object(limits)) = (field(tool, path), limits) {
                field.extend(limits);
            }
        }
        schema
    }
}

/// Returns the schema of a field: names of properties, `[]` for items and `{}` for the values of a map.
fn field<'a>(schema: &'a mut Map<String, Value>, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    // An optional block is a choice between its type and null.
    let schema = if schema.contains_key("anyOf") {
        schema.get_mut("anyOf")?.get_mut(0)?.as_object_mut()?
    } else {
        schema
    };
    let Some((name, rest)) = path.split_first() else { return Some(schema) };
    let next = match *name {
        "[]" => schema.get_mut("items")?,
        "{}" => schema.get_mut("additionalProperties")?,
        name => schema.get_mut("properties")?.get_mut(name)?,
    };
    field(next.as_object_mut()?, rest)
}

#[cfg(test)]
mod tests {
    use schemars::generate::SchemaSettings;

    use super::*;

    #[test]
    fn limits_reach_every_depth() {
        let mut generator = SchemaSettings::draft07().with(|it| it.inline_subschemas = true).into_generator();
        let mut schema = CompositeToolSchema::json_schema(&mut generator);
        let mut limit = |path: &[&str], key: &str| {
            field(schema.as_object_mut().unwrap(), path).unwrap_or_else(|| panic!("{path:?}"))[key].clone()
        };
        assert_eq!(limit(&["steps"], "maxItems"), 100);
        assert_eq!(limit(&["steps", "[]", "maxIterations"], "maximum"), 1000);
        assert_eq!(limit(&["steps", "[]", "step", "onError", "retryDelay"], "pattern"), DURATION);
        assert_eq!(limit(&["steps", "[]", "onError", "retryCount"], "maximum"), 10);
        assert_eq!(limit(&["output", "properties", "{}"], "required"), json!(["type"]));
    }
}
