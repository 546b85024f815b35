//! Merge of `spec.podTemplateSpec` into the pod template that the operator builds: a strategic merge, as
//! `kubectl patch` does it.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Map, Value};

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
        key: &'static str,
    },
}

/// The path of the field.
const PATH: &str = "spec.podTemplateSpec";

/// Returns the merge key of a list: entries with the same value of it are one. Other lists are replaced as a
/// whole.
fn merge_key(list: &str) -> Option<&'static str> {
    match list {
        "containers" | "initContainers" | "volumes" | "env" | "imagePullSecrets" => Some("name"),
        "volumeMounts" => Some("mountPath"),
        "volumeDevices" => Some("devicePath"),
        "ports" => Some("containerPort"),
        "hostAliases" => Some("ip"),
        "topologySpreadConstraints" => Some("topologyKey"),
        _ => None,
    }
}

/// Merges `overlay` into `base`: maps and lists with a merge key entry by entry, everything else is replaced,
/// `null` removes.
///
/// The labels of `base` stay, since the workload's selector needs them.
pub(crate) fn merge(
    base: &PodTemplateSpec,
    overlay: &Map<String, Value>,
) -> Result<PodTemplateSpec, PodTemplateError> {
    if overlay.is_empty() {
        return Ok(base.clone());
    }
    let reason = |reason| PodTemplateError::Type { reason };
    let overlay = Value::Object(overlay.clone());
    let understood: PodTemplateSpec = serde_json::from_value(overlay.clone()).map_err(reason)?;
    let understood = serde_json::to_value(understood).map_err(reason)?;
    if let Some(path) = unknown(&overlay, &understood, "") {
        return Err(PodTemplateError::Unknown { path });
    }
    let mut merged = serde_json::to_value(base).map_err(reason)?;
    merge_value(&mut merged, &overlay, "")?;
    let mut merged: PodTemplateSpec = serde_json::from_value(merged).map_err(reason)?;
    if let Some(labels) = base.metadata.as_ref().and_then(|metadata| metadata.labels.clone()) {
        merged.metadata.get_or_insert_default().labels.get_or_insert_default().extend(labels);
    }
    Ok(merged)
}

fn merge_value(base: &mut Value, overlay: &Value, path: &str) -> Result<(), PodTemplateError> {
    match (&mut *base, overlay) {
        (Value::Object(base), Value::Object(overlay)) => {
            for (name, value) in overlay {
                let path = format!("{path}.{name}");
                match (base.get_mut(name), value) {
                    (_, Value::Null) => {
                        base.shift_remove(name);
                    }
                    (Some(Value::Array(list)), Value::Array(entries)) if merge_key(name).is_some() => {
                        let key = merge_key(name).unwrap_or_default();
                        merge_list(list, entries, key, &path)?;
                    }
                    (Some(existing), value) => merge_value(existing, value, &path)?,
                    (None, value) => {
                        base.insert(name.clone(), value.clone());
                    }
                }
            }
        }
        (base, overlay) => *base = overlay.clone(),
    }
    Ok(())
}

fn merge_list(
    list: &mut Vec<Value>,
    entries: &[Value],
    key: &'static str,
    path: &str,
) -> Result<(), PodTemplateError> {
    for (index, entry) in entries.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let Some(id) = entry.get(key) else { return Err(PodTemplateError::Key { path, key }) };
        match list.iter_mut().find(|existing| existing.get(key) == Some(id)) {
            Some(existing) => merge_value(existing, entry, &path)?,
            None => list.push(entry.clone()),
        }
    }
    Ok(())
}

/// Returns the path of the first field that was dropped by parsing as the type: a field that does not exist.
fn unknown(written: &Value, understood: &Value, path: &str) -> Option<String> {
    match (written, understood) {
        (Value::Object(written), Value::Object(understood)) => written.iter().find_map(|(name, value)| {
            let path = format!("{path}.{name}");
            match understood.get(name) {
                Some(understood) => unknown(value, understood, &path),
                None if is_nothing(value) => None,
                None => Some(path),
            }
        }),
        (Value::Array(written), Value::Array(understood)) => {
            written.iter().zip(understood).enumerate().find_map(|(index, (written, understood))| {
                unknown(written, understood, &format!("{path}[{index}]"))
            })
        }
        _ => None,
    }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null()
        || value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(Map::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn base() -> PodTemplateSpec {
        serde_json::from_value(json!({
            "metadata": {"labels": {"app": "x"}},
            "spec": {
                "containers": [{
                    "name": "vmcp", "image": "vmcp:1", "env": [{"name": "A", "value": "1"}],
                    "volumeMounts": [{"name": "c", "mountPath": "/c"}],
                }],
                "volumes": [{"name": "c", "emptyDir": {}}],
                "tolerations": [{"key": "a"}],
            },
        }))
        .expect("a template")
    }

    fn merged(overlay: Value) -> Result<Value, String> {
        let Value::Object(overlay) = overlay else { panic!("an object") };
        let merged = merge(&base(), &overlay).map_err(|error| error.to_string())?;
        Ok(serde_json::to_value(merged).expect("JSON"))
    }

    #[test]
    fn named_entries_are_merged_and_others_replaced() {
        let merged = merged(json!({
            "metadata": {"labels": {"app": "y", "team": "z"}},
            "spec": {
                "containers": [
                    {"name": "vmcp", "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]},
                    {"name": "sidecar", "image": "s"},
                ],
                "tolerations": [{"key": "b"}],
                "priorityClassName": "high",
            },
        }))
        .expect("merged");
        assert_eq!(merged["metadata"]["labels"], json!({"app": "x", "team": "z"}));
        let spec = &merged["spec"];
        assert_eq!(spec["containers"][0]["image"], "vmcp:1");
        assert_eq!(
            spec["containers"][0]["env"],
            json!([{"name": "A", "value": "2"}, {"name": "B", "value": "3"}])
        );
        assert_eq!(spec["containers"][1]["name"], "sidecar");
        assert_eq!(spec["tolerations"], json!([{"key": "b"}]));
        assert_eq!(spec["priorityClassName"], "high");
        assert_eq!(spec["volumes"][0]["name"], "c");
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (overlay, word) in [
            (
                json!({"spec": {"containers": [{"name": "vmcp", "imagee": "x"}]}}),
                "spec.podTemplateSpec.spec.containers[0].imagee",
            ),
            (json!({"spec": {"containers": "vmcp"}}), "no pod template"),
            (json!({"spec": {"containers": [{"image": "x"}]}}), "needs a `name`"),
        ] {
            let error = merged(overlay).expect_err("refused");
            assert!(error.contains(word), "{error}");
        }
    }
}
