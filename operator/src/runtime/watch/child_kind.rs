//! The kinds of objects that the operator makes for a resource, and the Rust types that stand for them.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Resource;
use kube::api::{ApiResource, TypeMeta};
use serde::Serialize;
use vmcp_crds::EmbeddingServer;

/// A kind of object that the operator makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "they are Kubernetes' names")]
pub enum ChildKind {
    ServiceAccount,
    ConfigMap,
    Secret,
    PersistentVolumeClaim,
    Service,
    Deployment,
    StatefulSet,
    HorizontalPodAutoscaler,
    PodDisruptionBudget,
    NetworkPolicy,
    RoleBinding,
    EmbeddingServer,
    ServiceMonitor,
    HTTPRoute,
}

impl ChildKind {
    /// Every kind, in an order in which they can be created.
    pub const ALL: [Self; 14] = [
        Self::ServiceAccount,
        Self::ConfigMap,
        Self::Secret,
        Self::PersistentVolumeClaim,
        Self::Service,
        Self::Deployment,
        Self::StatefulSet,
        Self::HorizontalPodAutoscaler,
        Self::PodDisruptionBudget,
        Self::NetworkPolicy,
        Self::RoleBinding,
        Self::EmbeddingServer,
        Self::ServiceMonitor,
        Self::HTTPRoute,
    ];

    /// Returns the kind as the API server spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ServiceAccount => "ServiceAccount",
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::Service => "Service",
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::HorizontalPodAutoscaler => "HorizontalPodAutoscaler",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::RoleBinding => "RoleBinding",
            Self::EmbeddingServer => "EmbeddingServer",
            Self::ServiceMonitor => "ServiceMonitor",
            Self::HTTPRoute => "HTTPRoute",
        }
    }

    /// Returns the group, version and plural under which the API server serves the kind.
    pub fn resource(self) -> ApiResource {
        match self {
            Self::ServiceAccount => ApiResource::erase::<ServiceAccount>(&()),
            Self::ConfigMap => ApiResource::erase::<ConfigMap>(&()),
            Self::Secret => ApiResource::erase::<Secret>(&()),
            Self::PersistentVolumeClaim => ApiResource::erase::<PersistentVolumeClaim>(&()),
            Self::Service => ApiResource::erase::<Service>(&()),
            Self::Deployment => ApiResource::erase::<Deployment>(&()),
            Self::StatefulSet => ApiResource::erase::<StatefulSet>(&()),
            Self::HorizontalPodAutoscaler => ApiResource::erase::<HorizontalPodAutoscaler>(&()),
            Self::PodDisruptionBudget => ApiResource::erase::<PodDisruptionBudget>(&()),
            Self::NetworkPolicy => ApiResource::erase::<NetworkPolicy>(&()),
            Self::RoleBinding => ApiResource::erase::<RoleBinding>(&()),
            Self::EmbeddingServer => ApiResource::erase::<EmbeddingServer>(&()),
            Self::ServiceMonitor => foreign("monitoring.coreos.com", "v1", self.as_str(), "servicemonitors"),
            Self::HTTPRoute => foreign("gateway.networking.k8s.io", "v1", self.as_str(), "httproutes"),
        }
    }

    /// Returns `apiVersion` and `kind` of an object of the kind.
    pub(crate) fn types(self) -> TypeMeta {
        let ApiResource { api_version, kind, .. } = self.resource();
        TypeMeta { api_version, kind }
    }

    /// Returns true if a cluster may lack the kind: its definition comes with the Prometheus operator or the
    /// Gateway API.
    pub fn is_optional(self) -> bool {
        matches!(self, Self::ServiceMonitor | Self::HTTPRoute)
    }
}

/// Describes a kind without a Rust type.
fn foreign(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: format!("{group}/{version}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// A Rust type that stands for a [`ChildKind`].
pub trait ChildType: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize {
    /// The kind that the type stands for.
    const KIND: ChildKind;
}

macro_rules! child_types {
    ($($name:ident),*) => { $(impl ChildType for $name { const KIND: ChildKind = ChildKind::$name; })* };
}
// Each type stands for the kind of its own name.
child_types!(
    ServiceAccount,
    ConfigMap,
    Secret,
    PersistentVolumeClaim,
    Service,
    Deployment,
    StatefulSet,
    HorizontalPodAutoscaler,
    PodDisruptionBudget,
    NetworkPolicy,
    RoleBinding,
    EmbeddingServer
);
