//! Status patches: only if the status changed, only the fields that changed, and never over a newer version
//! of the object.
//!
//! The patch is a JSON merge patch with the resource version that it was computed from (compare-and-swap).

use k8s_openapi::NamespaceResourceScope;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Resource, ResourceExt as _};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::apply::FIELD_MANAGER;
use super::{CallError, Verb};
use crate::runtime::context::Context;
use crate::runtime::watch::{CustomResource, kind_of};

impl Context {
    /// Writes `status` if it differs from the status of `object`; returns true if it wrote.
    ///
    /// Fails with `Conflict` if the object changed meanwhile; the next reconcile computes the status from the
    /// new version.
    pub async fn write_status<K: CustomResource>(
        &self,
        object: &K,
        status: &impl Serialize,
    ) -> Result<bool, CallError> {
        let before =
            serde_json::to_value(object).ok().and_then(|mut object| Some(object.get_mut("status")?.take()));
        let now = serde_json::to_value(status).unwrap_or_default();
        let Some(change) = difference(&before.unwrap_or(Value::Null), &now) else { return Ok(false) };
        self.patch_status(object, change).await?;
        Ok(true)
    }

    /// Patches the status of an object of which perhaps only the metadata could be parsed.
    pub(crate) async fn patch_status<K>(&self, object: &K, change: Value) -> Result<(), CallError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Sync,
    {
        let name = object.name_any();
        let api: Api<PartialObjectMeta<DynamicObject>> = Api::namespaced_with(
            self.client.clone(),
            object.meta().namespace.as_deref().unwrap_or_default(),
            &self.resource_of::<K>(),
        );
        let mut patch = json!({ "status": change });
        if let (Some(version), Some(patch)) = (&object.meta().resource_version, patch.as_object_mut()) {
            patch.insert("metadata".into(), json!({ "resourceVersion": version }));
        }
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        let kind = kind_of::<K>();
        self.call(Verb::Patch, kind, &name, api.patch_status(&name, &params, &Patch::Merge(patch))).await?;
        Ok(())
    }
}

/// Returns the JSON merge patch that turns `from` into `to`; `None` if they are equal.
fn difference(from: &Value, to: &Value) -> Option<Value> {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            let mut patch = Map::new();
            for (key, value) in to {
                match from.get(key) {
                    Some(before) => {
                        if let Some(change) = difference(before, value) {
                            patch.insert(key.clone(), change);
                        }
                    }
                    None if value.is_null() => {}
                    None => {
                        patch.insert(key.clone(), value.clone());
                    }
                }
            }
            for (key, before) in from {
                if !to.contains_key(key) && !before.is_null() {
                    patch.insert(key.clone(), Value::Null);
                }
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (from, to) if from == to => None,
        (_, to) => Some(to.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_holds_what_changed_and_removes_what_is_gone() {
        let from = json!({"phase": "Pending", "url": "u", "message": "m", "list": [1, 2]});
        let to = json!({"phase": "Ready", "url": "u", "list": [1, 2]});
        assert_eq!(difference(&from, &to), Some(json!({"phase": "Ready", "message": null})));
        assert_eq!(difference(&to, &to), None);
        assert_eq!(difference(&Value::Null, &to), Some(to));
    }
}
