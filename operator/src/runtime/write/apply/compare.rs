//! Comparison of desired fields with a live object: only fields that the desired object has count.
//!
//! Defaults that the API server added and fields of other managers are thus no difference. Lists with a merge
//! key are compared entry by entry, as server-side apply merges them; all other lists belong to the operator
//! as a whole.

use serde_json::{Map, Value};

/// Returns the key that tells the entries of a list apart, for lists to which others may add entries.
fn merge_key(list: &str) -> Option<&'static str> {
    match list {
        "containers" | "initContainers" | "volumes" | "env" | "imagePullSecrets" => Some("name"),
        "volumeMounts" => Some("mountPath"),
        "ownerReferences" => Some("uid"),
        _ => None,
    }
}

/// Returns the part of `live` that `desired` has fields for.
pub(super) fn project(live: &Value, desired: &Value) -> Value {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => {
            let mut projected = Map::new();
            for (key, wanted) in desired {
                if let Some(found) = live.get(key) {
                    projected.insert(key.clone(), project_field(key, found, wanted));
                }
            }
            Value::Object(projected)
        }
        (Value::Array(live), Value::Array(desired)) if live.len() == desired.len() => {
            Value::Array(live.iter().zip(desired).map(|(live, desired)| project(live, desired)).collect())
        }
        (live, _) => live.clone(),
    }
}

fn project_field(name: &str, live: &Value, desired: &Value) -> Value {
    match (merge_key(name), live, desired) {
        (Some(key), Value::Array(live), Value::Array(desired)) => {
            let found = |wanted: &Value| {
                let id = wanted.get(key)?;
                live.iter().find(|entry| entry.get(key) == Some(id)).map(|entry| project(entry, wanted))
            };
            Value::Array(desired.iter().filter_map(found).collect())
        }
        _ => project(live, desired),
    }
}

/// Returns true if two values are the same. An empty map or list equals none: the API server drops some of
/// them.
pub(super) fn same(is: &Value, desired: &Value) -> bool {
    match (is, desired) {
        (Value::Object(is), Value::Object(desired)) => {
            desired.iter().all(|(key, wanted)| match is.get(key) {
                Some(found) => same(found, wanted),
                None => is_nothing(wanted),
            })
        }
        (Value::Array(is), Value::Array(desired)) => {
            is.len() == desired.len() && is.iter().zip(desired).all(|(is, desired)| same(is, desired))
        }
        (is, desired) => is == desired || is_nothing(is) && is_nothing(desired),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settled(live: &Value, desired: &Value) -> bool {
        same(&project(live, desired), desired)
    }

    #[test]
    fn what_others_add_is_none_of_our_business() {
        let desired =
            json!({"spec": {"template": {"spec": {"containers": [{"name": "vmcp", "image": "a"}]}}}});
        let live = json!({
            "metadata": {"resourceVersion": "7"},
            "spec": {
                "replicas": 5,
                "template": {
                    "metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}},
                    "spec": {"containers": [{"name": "sidecar"}, {"name": "vmcp", "image": "a", "terminationMessagePath": "/t"}]},
                },
            },
        });
        assert!(settled(&live, &desired));
    }

    #[test]
    fn what_is_ours_is_noticed() {
        let desired = json!({"data": {"a": "1"}, "args": ["x", "y"], "ports": [{"port": 1}], "emptyDir": {}});
        assert!(settled(
            &json!({"data": {"a": "1", "b": "2"}, "args": ["x", "y"], "ports": [{"port": 1, "protocol": "TCP"}]}),
            &desired
        ));
        for drift in [
            json!({"data": {"a": "2"}, "args": ["x", "y"], "ports": [{"port": 1}]}),
            json!({"data": {"a": "1"}, "args": ["y", "x"], "ports": [{"port": 1}]}),
            json!({"data": {"a": "1"}, "args": ["x", "y", "z"], "ports": [{"port": 1}]}),
            json!({"data": {"a": "1"}, "args": ["x", "y"], "ports": [{"port": 1}, {"port": 2}]}),
            json!({"args": ["x", "y"], "ports": [{"port": 1}]}),
        ] {
            assert!(!settled(&drift, &desired), "{drift}");
        }
    }
}
