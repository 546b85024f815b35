//! Merge of `spec.podTemplateSpec` into the pod template that the operator builds: a strategic merge, as
//! `kubectl patch` does it, by the rules of the API server's own schema.

mod strategic_merge;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Map, Value, json};

use crate::runtime::PodSchema;

/// Error of merging a pod template.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PodTemplateError {
    /// A value has the wrong type.
    #[error("{path} is no pod template: {reason}; see `kubectl explain pod.spec`", path = PATH)]
    Type {
        /// The parser's error.
        reason: serde_json::Error,
    },
    /// A field does not exist.
    #[error("{PATH}{path} is no field of a pod template; see `kubectl explain pod.spec`")]
    Unknown {
        /// The path below `spec.podTemplateSpec`.
        path: String,
    },
    /// An entry of a list lacks the merge key.
    #[error("{PATH}{path} needs a `{key}`, by which list entries are merged")]
    Key {
        /// The path below `spec.podTemplateSpec`.
        path: String,
        /// The merge key.
        key: String,
    },
    /// A directive has a value that it cannot have.
    #[error(
        "{PATH}{path} is no directive of a strategic merge patch; `$patch` is `merge`, `replace` or `delete`, `$retainKeys` a list of fields"
    )]
    Directive {
        /// The path below `spec.podTemplateSpec`.
        path: String,
    },
}

/// The path of the field.
const PATH: &str = "spec.podTemplateSpec";

/// Merges `overlay` into `base`: maps and lists with a merge key entry by entry, everything else is replaced,
/// `null` removes. Returns JSON, since the overlay may have fields that are newer than the types of this
/// program.
///
/// Labels and annotations of `base` stay: the workload's selector needs the labels, and the annotations roll
/// the pods.
pub(crate) fn merge(
    base: &PodTemplateSpec,
    overlay: &Map<String, Value>,
    schema: &PodSchema,
) -> Result<Value, PodTemplateError> {
    let reason = |reason| PodTemplateError::Type { reason };
    let mut merged = serde_json::to_value(base).map_err(reason)?;
    if overlay.is_empty() {
        return Ok(merged);
    }
    let overlay = Value::Object(overlay.clone());
    // Fields that the types know have values of the right type; the API server judges newer ones.
    serde_json::from_value::<PodTemplateSpec>(without_directives(&overlay)).map_err(reason)?;
    strategic_merge::merge(&mut merged, &overlay, schema)?;
    let base = serde_json::to_value(base).map_err(reason)?;
    for field in ["labels", "annotations"] {
        if let Some(Value::Object(ours)) = base.get("metadata").and_then(|metadata| metadata.get(field))
            && let Some(template) = merged.as_object_mut()
            && let Some(metadata) = template.entry("metadata").or_insert_with(|| json!({})).as_object_mut()
            && let Some(entries) = metadata.entry(field).or_insert_with(|| json!({})).as_object_mut()
        {
            entries.extend(ours.clone());
        }
    }
    // In the order of the types, so that the same template has the same digest as before.
    let typed: PodTemplateSpec = serde_json::from_value(merged.clone()).map_err(reason)?;
    let typed = serde_json::to_value(typed).map_err(reason)?;
    Ok(if has_more(&merged, &typed) { merged } else { typed })
}

/// Returns a patch without the directives `$patch` and `$retainKeys`, which the type does not know.
fn without_directives(patch: &Value) -> Value {
    match patch {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| !name.starts_with('$'))
            .map(|(name, value)| (name.clone(), without_directives(value)))
            .collect(),
        Value::Array(entries) => entries.iter().map(without_directives).collect(),
        scalar => scalar.clone(),
    }
}

/// Returns true if `merged` has a field that was dropped by parsing as the type: it is newer than the type.
fn has_more(merged: &Value, typed: &Value) -> bool {
    match (merged, typed) {
        (Value::Object(merged), Value::Object(typed)) => merged
            .iter()
            .any(|(name, value)| typed.get(name).map_or(!is_nothing(value), |typed| has_more(value, typed))),
        (Value::Array(merged), Value::Array(typed)) => {
            merged.iter().zip(typed).any(|(merged, typed)| has_more(merged, typed))
        }
        _ => false,
    }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null()
        || value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(Map::is_empty)
}

#[cfg(test)]
mod tests;
