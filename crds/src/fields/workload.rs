//! Fields of a pod and its Service that several kinds share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fields::references::SecretKeyReference;

/// Name of the cache volume.
pub const CACHE_VOLUME: &str = "cache";

/// Session affinity of a Service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SessionAffinity {
    /// Requests from one client address go to one pod.
    #[default]
    ClientIP,
    /// Requests go to any pod.
    None,
}

impl SessionAffinity {
    /// Returns the value of `spec.sessionAffinity` in a Service.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClientIP => "ClientIP",
            Self::None => "None",
        }
    }
}

/// When the kubelet pulls an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImagePullPolicy {
    /// At every start of a container.
    Always,
    /// Only if the node does not have the image.
    IfNotPresent,
    /// Never; the node must have the image.
    Never,
}

impl ImagePullPolicy {
    /// Returns the value of `imagePullPolicy` in a container.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

/// An environment variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnvironmentVariable {
    /// Name of the variable.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Value of the variable. It is not secret; use `secrets` for values that are.
    pub value: String,
}

/// An environment variable whose value is in a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretVariable {
    /// Secret and key that hold the value.
    #[serde(flatten)]
    pub secret: SecretKeyReference,
    /// Name of the variable. Default: the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub target_env_name: Option<String>,
}

/// Returns the schema of a pod template: any object. The operator checks it against the type of Kubernetes,
/// whose own schema would be larger than all the rest of the definition.
pub(crate) fn pod_template_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}
