//! Giving up field ownership (`metadata.managedFields`) without changing the field's value.
//!
//! Server-side apply removes a field that its only owner no longer applies. So the number of pods is given up
//! *before* it is left to an autoscaler or a person: otherwise a Deployment would fall back to one pod. And
//! fields that the operator wrote by a merge patch are given up *after* it: an `Update` entry would keep them
//! for good, whatever is applied later.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::FIELD_MANAGER;
use crate::runtime::context::Context;
use crate::runtime::watch::ChildKind;
use crate::runtime::write::{CallError, Verb};

/// The owners of an object's fields, as in `metadata.managedFields`.
type Entries = Vec<ManagedFieldsEntry>;

/// Returns true if the number of pods is left to an autoscaler or a person.
pub(super) fn leaves_replicas(kind: ChildKind, desired: &Value) -> bool {
    matches!(kind, ChildKind::Deployment | ChildKind::StatefulSet)
        && desired.pointer("/spec/replicas").is_none()
}

impl Context {
    /// Rewrites the field owners of an object as `change` says; writes nothing if it returns `None`.
    ///
    /// The patch names the version that was read: a write of another manager in between makes it fail with
    /// `Conflict`.
    pub(super) async fn disown(
        &self,
        api: &Api<DynamicObject>,
        kind: ChildKind,
        name: &str,
        change: fn(Entries) -> Option<Entries>,
    ) -> Result<(), CallError> {
        let found = self.call(Verb::Get, kind.as_str(), name, api.get_opt(name)).await?;
        let Some(meta) = found.map(|found| found.metadata) else { return Ok(()) };
        let Some(fields) = change(meta.managed_fields.unwrap_or_default()) else { return Ok(()) };
        let patch =
            json!({ "metadata": { "resourceVersion": meta.resource_version, "managedFields": fields } });
        let patch = Patch::Merge(patch);
        self.call(Verb::Patch, kind.as_str(), name, api.patch(name, &PatchParams::default(), &patch)).await?;
        Ok(())
    }
}

/// Returns true for an entry of the operator with this operation (`Apply` or `Update`).
fn is_ours(entry: &ManagedFieldsEntry, operation: &str) -> bool {
    entry.manager.as_deref() == Some(FIELD_MANAGER) && entry.operation.as_deref() == Some(operation)
}

/// Returns the entries without the operator's ownership of `spec.replicas`; `None` if it has none.
pub(super) fn replicas(mut fields: Entries) -> Option<Entries> {
    let ours = fields.iter_mut().find(|entry| is_ours(entry, "Apply"))?;
    let spec = ours.fields_v1.as_mut()?.0.get_mut("f:spec")?.as_object_mut()?;
    spec.remove("f:replicas")?;
    Some(fields)
}

/// Returns the entries without the operator's entries of other writes than apply; `None` if it has no such
/// entries.
pub(super) fn updates(mut fields: Entries) -> Option<Entries> {
    let before = fields.len();
    fields.retain(|entry| !is_ours(entry, "Update"));
    (fields.len() < before).then_some(fields)
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
        let [with, without] = [&both, &selector].map(|fields| entry(FIELD_MANAGER, "Apply", fields));
        assert_eq!(replicas(vec![autoscaler.clone(), without.clone()]), None);
        let given_up = Some(vec![autoscaler.clone(), without]);
        assert_eq!(replicas(vec![autoscaler.clone(), with.clone()]), given_up);

        let applied = vec![autoscaler, with];
        assert_eq!(updates(applied.clone()), None);
        let updated = [applied.clone(), vec![entry(FIELD_MANAGER, "Update", &both)]].concat();
        assert_eq!(updates(updated), Some(applied));
    }
}
