//! References to other objects of the same namespace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An object of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct LocalReference {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Certificates of authorities that are trusted besides those of the system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaBundleReference {
    /// ConfigMap that holds them, as PEM.
    pub config_map_ref: ConfigMapKeyReference,
}

/// One key of a ConfigMap in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ConfigMapKeyReference {
    /// Name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in the data of the ConfigMap.
    #[serde(default = "ca_key")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

fn ca_key() -> String {
    "ca.crt".to_owned()
}

/// One key of a Secret in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct SecretKeyReference {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in the data of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}
