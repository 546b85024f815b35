//! The StatefulSet, the workload of a server whose pods have a claim each.

use k8s_openapi::api::apps::v1::{
    StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec,
};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use vmcp_crds::embedding_server::AccessMode;
use vmcp_crds::fields::workload::CACHE_VOLUME;
use vmcp_crds::virtual_mcp_server::{ClaimRetention, StorageClaim, StorageVolume, Validated};

use crate::virtual_mcp_server::names;
use crate::workload::claim_templates::ClaimTemplate;

/// Returns the StatefulSet with this metadata and number of pods. An existing one keeps its claims:
/// Kubernetes refuses an edit that changes them, and with it the rest of the edit.
pub(super) fn stateful_set(
    server: &Validated,
    volume: &StorageVolume,
    (mut metadata, replicas): (ObjectMeta, Option<i32>),
    template: PodTemplateSpec,
    running: Option<&StatefulSet>,
) -> StatefulSet {
    let wanted = claim_template(&volume.persistent_volume_claim).spec();
    let kept = running.and_then(stored_template).and_then(|template| template.spec.clone());
    let kept = kept.filter(|_| running.is_some_and(|set| !has_claims(set, volume)));
    if kept.is_some() {
        // A precondition: without it, a StatefulSet that was deleted meanwhile would return with its old
        // claims.
        metadata.uid = running.and_then(|set| set.metadata.uid.clone());
    }
    let claim = PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(CACHE_VOLUME.to_owned()),
            labels: Some(names::selector(&server.name)),
            ..ObjectMeta::default()
        },
        spec: Some(kept.unwrap_or(wanted)),
        status: None,
    };
    let retention = volume.persistent_volume_claim_retention_policy;
    // A suspension lowers the number to none, and everything but the pods stays.
    let when_scaled = if server.is_suspended { ClaimRetention::Retain } else { retention.when_scaled };
    StatefulSet {
        metadata,
        spec: Some(StatefulSetSpec {
            replicas,
            // Each pod has a name there, and the replicas find each other by it.
            service_name: Some(names::peers(&server.name)),
            selector: LabelSelector {
                match_labels: Some(names::selector(&server.name)),
                ..LabelSelector::default()
            },
            // `OrderedReady` would wait for a broken pod to become ready before it rolls out the correction.
            pod_management_policy: Some("Parallel".to_owned()),
            volume_claim_templates: Some(vec![claim]),
            persistent_volume_claim_retention_policy: Some(StatefulSetPersistentVolumeClaimRetentionPolicy {
                when_deleted: Some(retention.when_deleted.as_str().to_owned()),
                when_scaled: Some(when_scaled.as_str().to_owned()),
            }),
            template,
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    }
}

/// Returns true if the StatefulSet was made with these claims.
pub(in crate::virtual_mcp_server) fn has_claims(set: &StatefulSet, volume: &StorageVolume) -> bool {
    let wanted = claim_template(&volume.persistent_volume_claim);
    stored_template(set).is_some_and(|template| wanted.made(template))
}

fn stored_template(set: &StatefulSet) -> Option<&PersistentVolumeClaim> {
    set.spec.as_ref()?.volume_claim_templates.as_ref()?.first()
}

/// Returns the claims. SQLite needs a volume of one node.
fn claim_template(claim: &StorageClaim) -> ClaimTemplate<'_> {
    ClaimTemplate {
        access_mode: AccessMode::ReadWriteOnce,
        size: &claim.size,
        storage_class_name: claim.storage_class_name.as_deref(),
    }
}
