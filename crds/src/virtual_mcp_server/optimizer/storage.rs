//! `spec.optimizer.storage`: where a pod keeps its cache and its counts.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vmcp_config::raw::StorageType;

use crate::fields::cel_rules::QUANTITY_PATTERN;
use crate::fields::resource_overrides::is_default;

/// Cache of vectors and hashes, and counts of calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Storage {
    /// Kind of storage. Only `sqlite` exists.
    #[serde(rename = "type")]
    pub kind: StorageType,
    /// Size limit of the cache volume that ends with its pod; the kubelet evicts a pod that exceeds it. Has
    /// no effect beside `volume`.
    #[schemars(extend("pattern" = QUANTITY_PATTERN))]
    pub size_limit: Quantity,
    /// Volume that outlives its pod. The pods are then those of a StatefulSet, each with a claim of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<StorageVolume>,
}

impl Default for Storage {
    fn default() -> Self {
        Self { kind: StorageType::Sqlite, size_limit: Quantity("1Gi".to_owned()), volume: None }
    }
}

/// Volume that outlives its pod.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageVolume {
    /// Claim of each pod. Kubernetes cannot change the claims of a StatefulSet that exists; the condition
    /// `VolumesReady` tells how to replace it.
    pub persistent_volume_claim: StorageClaim,
    /// Deletion of claims whose pod is not needed any more. Default: they stay, with their data.
    #[serde(default, skip_serializing_if = "is_default")]
    pub persistent_volume_claim_retention_policy: ClaimRetentionPolicy,
}

/// Claim of each pod.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct StorageClaim {
    /// Size of the volume.
    #[schemars(extend("pattern" = QUANTITY_PATTERN))]
    pub size: Quantity,
    /// Storage class of the claim. Default: the default class of the cluster. Not one of a network file
    /// system, which SQLite cannot use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class_name: Option<String>,
}

impl Default for StorageClaim {
    fn default() -> Self {
        Self { size: Quantity("1Gi".to_owned()), storage_class_name: None }
    }
}

/// Deletion of claims whose pod is not needed any more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimRetentionPolicy {
    /// With the StatefulSet: when the resource is deleted, or no longer asks for a volume.
    pub when_deleted: ClaimRetention,
    /// When the number of pods is lowered.
    pub when_scaled: ClaimRetention,
}

/// Future of a claim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ClaimRetention {
    /// The claim stays, and a later pod of the same number takes it up.
    #[default]
    Retain,
    /// The claim is deleted, and with it the data.
    Delete,
}

impl ClaimRetention {
    /// Returns the value in a StatefulSet.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retain => "Retain",
            Self::Delete => "Delete",
        }
    }
}
