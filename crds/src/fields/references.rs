//! References to other objects: most to objects of the same namespace, some to objects of another one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Maximum characters of a backend's name, and of the value of a label.
const MAX_NAME: usize = 63;
/// Character in the names of backends of other namespaces, and in no name of Kubernetes.
const ELSEWHERE: char = '_';
/// Characters of the digest at the end of a cut name.
const DIGEST: usize = 16;

/// An object of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct LocalReference {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// An MCPGroup of the same namespace, or of another namespace with a grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupReference {
    /// Name of the group.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the group, if it is another one. A ReferenceGrant (Gateway API) there must name
    /// VirtualMCPServers of this namespace, and the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// A backend of another namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct BackendReference {
    /// Kind of the backend.
    #[serde(default)]
    pub kind: BackendKind,
    /// Name of the backend.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the backend. A ReferenceGrant (Gateway API) there must name VirtualMCPServers of this
    /// namespace, and the backend.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
}

/// Kinds of backends.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum BackendKind {
    /// MCPServer.
    #[default]
    #[serde(rename = "MCPServer")]
    Server,
    /// MCPServerEntry.
    #[serde(rename = "MCPServerEntry")]
    Entry,
    /// MCPRemoteProxy.
    #[serde(rename = "MCPRemoteProxy")]
    RemoteProxy,
}

impl BackendKind {
    /// Returns the kind as the API server spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "MCPServer",
            Self::Entry => "MCPServerEntry",
            Self::RemoteProxy => "MCPRemoteProxy",
        }
    }
}

/// Returns the name of a backend of another namespace: `NAMESPACE_NAME`, or the beginning of a longer one,
/// `_` and a digest. Names of Kubernetes have no `_`, so that no backend of the server's own namespace has
/// this name.
pub fn backend_name_in(namespace: &str, name: &str) -> String {
    bounded(&format!("{namespace}{ELSEWHERE}{name}"), ELSEWHERE)
}

/// Returns true for a name of [`backend_name_in`].
pub fn is_elsewhere(backend: &str) -> bool {
    backend.contains(ELSEWHERE)
}

/// Returns a name of at most 63 characters: the beginning of a longer one, with a digest of it.
pub fn bounded_name(name: &str) -> String {
    bounded(name, '-')
}

fn bounded(name: &str, joint: char) -> String {
    if name.len() <= MAX_NAME {
        return name.to_owned();
    }
    let digest = hex::encode(Sha256::digest(name));
    // Names of resources are ASCII.
    let beginning: String = name.chars().take(MAX_NAME - 1 - DIGEST).collect();
    let digest: String = digest.chars().take(DIGEST).collect();
    format!("{beginning}{joint}{digest}")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_makes_a_label_and_the_name_of_a_backend() {
        assert_eq!(bounded_name("team"), "team");
        assert_eq!(backend_name_in("team-b", "github"), "team-b_github");
        let long = "g".repeat(253);
        let (one, other) = (bounded_name(&long), bounded_name(&format!("{}h", &long[1..])));
        assert_eq!((one.len(), other.len()), (63, 63));
        assert_ne!(one, other);
        let name = backend_name_in(&"n".repeat(63), &"m".repeat(63));
        assert!(vmcp_config::is_backend_name(&name) && is_elsewhere(&name), "{name}");
        assert_ne!(backend_name_in("a", "b-c"), backend_name_in("a-b", "c"));
    }
}
