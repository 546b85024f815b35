//! What the specifications of several workloads share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fields::references::SecretKeyReference;

/// Whether the requests of one client go to one pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SessionAffinity {
    /// By the client's address.
    #[default]
    ClientIP,
    /// To any pod.
    None,
}

impl SessionAffinity {
    /// As a Service says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClientIP => "ClientIP",
            Self::None => "None",
        }
    }
}

/// When an image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImagePullPolicy {
    /// At every start.
    Always,
    /// When the node does not have it.
    IfNotPresent,
    /// Never: the node has it.
    Never,
}

impl ImagePullPolicy {
    /// As a container says it.
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
    /// Its name.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Its value.
    pub value: String,
}

/// An environment variable whose value is in a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretVariable {
    /// Where the value is.
    #[serde(flatten)]
    pub secret: SecretKeyReference,
    /// Name of the variable. Default: the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub target_env_name: Option<String>,
}

/// The schema of a pod template: any object, which the operator checks against the type.
pub(crate) fn pod_template_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}
