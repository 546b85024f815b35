//! The number of pods, from when it is not asked for any more.
//!
//! The API server takes away what its owner no longer asks for: a Deployment whose number of pods is left to an autoscaler would
//! fall back to one pod, in the middle of the day. So the field is given up first, and stays as it is.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::FIELD_MANAGER;
use crate::runtime::{CallError, ChildKind, Context, Verb};

/// Whether somebody else says how many pods there are.
pub(super) fn are_left_to_others(kind: ChildKind, desired: &Value) -> bool {
    kind == ChildKind::Deployment && desired.pointer("/spec/replicas").is_none()
}

impl Context {
    /// Gives the field up, where it is ours.
    pub(super) async fn leave_replicas(&self, api: &Api<DynamicObject>, name: &str) -> Result<(), CallError> {
        let kind = ChildKind::Deployment.as_str();
        let found = self.call(Verb::Get, kind, name, api.get_opt(name)).await?;
        let Some(meta) = found.map(|found| found.metadata) else { return Ok(()) };
        let Some(fields) = given_up(meta.managed_fields.unwrap_or_default()) else { return Ok(()) };
        let patch =
            json!({ "metadata": { "resourceVersion": meta.resource_version, "managedFields": fields } });
        let patch = Patch::Merge(patch);
        self.call(Verb::Patch, kind, name, api.patch(name, &PatchParams::default(), &patch)).await?;
        Ok(())
    }
}

/// The fields without that one; `None` when it is not ours.
fn given_up(mut fields: Vec<ManagedFieldsEntry>) -> Option<Vec<ManagedFieldsEntry>> {
    let ours = fields.iter_mut().find(|entry| {
        entry.manager.as_deref() == Some(FIELD_MANAGER) && entry.operation.as_deref() == Some("Apply")
    })?;
    let spec = ours.fields_v1.as_mut()?.0.get_mut("f:spec")?.as_object_mut()?;
    spec.remove("f:replicas")?;
    Some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, fields: &Value) -> ManagedFieldsEntry {
        let entry = json!({
            "manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
            "fieldsV1": { "f:spec": fields },
        });
        serde_json::from_value(entry).expect("an entry")
    }

    #[test]
    fn only_what_is_ours_is_given_up() {
        let (both, selector) = (json!({ "f:replicas": {}, "f:selector": {} }), json!({ "f:selector": {} }));
        let autoscaler = entry("kube-controller-manager", "Update", &json!({ "f:replicas": {} }));
        assert_eq!(given_up(vec![autoscaler.clone(), entry(FIELD_MANAGER, "Apply", &selector)]), None);
        assert_eq!(
            given_up(vec![autoscaler.clone(), entry(FIELD_MANAGER, "Apply", &both)]),
            Some(vec![autoscaler, entry(FIELD_MANAGER, "Apply", &selector)])
        );
    }
}
