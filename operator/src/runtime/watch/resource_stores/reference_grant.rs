//! [`ReferenceGrant`] of the Gateway API: a namespace lets resources of another one refer to its objects. See
//! <https://gateway-api.sigs.k8s.io/api-types/referencegrant/>.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Referring resources, and objects of the grant's own namespace that they may refer to.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "gateway.networking.k8s.io",
    version = "v1beta1",
    kind = "ReferenceGrant",
    plural = "referencegrants",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
pub struct ReferenceGrantSpec {
    /// Resources that may refer.
    #[serde(default)]
    pub from: Vec<GrantFrom>,
    /// Objects that they may refer to.
    #[serde(default)]
    pub to: Vec<GrantTo>,
}

/// Referring resources: those of a kind in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantFrom {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
}

/// Objects of the grant's own namespace: all of a kind, or one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantTo {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Name; `None`: every object of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl GrantTo {
    /// Returns true if an object is meant.
    pub(crate) fn means(&self, group: &str, kind: &str, name: &str) -> bool {
        self.group == group && self.kind == kind && self.name.as_deref().is_none_or(|own| own == name)
    }
}
