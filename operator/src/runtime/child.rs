//! Objects that the operator makes for a resource.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;
use kube::api::{ApiResource, DynamicObject, ObjectMeta, TypeMeta};
use serde::Serialize;
use serde_json::Value;
use vmcp_crds::EmbeddingServer;

/// The kinds of children.
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
    EmbeddingServer,
    ServiceMonitor,
    HTTPRoute,
}

impl ChildKind {
    /// All of them.
    pub const ALL: [Self; 13] = [
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
        Self::EmbeddingServer,
        Self::ServiceMonitor,
        Self::HTTPRoute,
    ];

    /// The kind as the API server spells it.
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
            Self::EmbeddingServer => "EmbeddingServer",
            Self::ServiceMonitor => "ServiceMonitor",
            Self::HTTPRoute => "HTTPRoute",
        }
    }

    /// Where the API server has it.
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
            Self::EmbeddingServer => ApiResource::erase::<EmbeddingServer>(&()),
            Self::ServiceMonitor => foreign("monitoring.coreos.com", "v1", self.as_str(), "servicemonitors"),
            Self::HTTPRoute => foreign("gateway.networking.k8s.io", "v1", self.as_str(), "httproutes"),
        }
    }

    /// What an object of the kind says of itself.
    pub(super) fn types(self) -> TypeMeta {
        let ApiResource { api_version, kind, .. } = self.resource();
        TypeMeta { api_version, kind }
    }

    /// Whether a cluster may lack the kind.
    pub fn is_optional(self) -> bool {
        matches!(self, Self::ServiceMonitor | Self::HTTPRoute)
    }
}

fn foreign(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: format!("{group}/{version}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// A type of a child.
pub trait ChildType: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize {
    /// Its kind.
    const KIND: ChildKind;
}

macro_rules! child_types {
    ($($name:ident),*) => { $(impl ChildType for $name { const KIND: ChildKind = ChildKind::$name; })* };
}
// A type is the kind of its own name.
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
    EmbeddingServer
);

/// An object that should exist: its name, labels and content. Namespace, owner and the operator's own labels are added by
/// [`Context::apply`](super::Context::apply).
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    pub(super) kind: ChildKind,
    pub(super) object: DynamicObject,
}

impl Child {
    /// From a typed object.
    pub fn of<K: ChildType>(object: &K) -> Self {
        // Maps with string keys always become JSON, and what has metadata is an object. If that ever is not so, the API server
        // refuses the empty object by its name.
        let dynamic = serde_json::to_value(object).and_then(serde_json::from_value);
        let name = object.meta().name.clone().unwrap_or_default();
        let object = dynamic.unwrap_or_else(|_| DynamicObject::new(&name, &K::KIND.resource()));
        Self { kind: K::KIND, object }
    }

    /// From JSON (everything but `apiVersion`, `kind` and `metadata`), for kinds that have no type here.
    pub fn json(kind: ChildKind, metadata: ObjectMeta, content: Value) -> Self {
        Self { kind, object: DynamicObject { types: Some(kind.types()), metadata, data: content } }
    }

    /// Its kind.
    pub fn kind(&self) -> ChildKind {
        self.kind
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    /// Its content.
    pub fn object(&self) -> &DynamicObject {
        &self.object
    }
}
