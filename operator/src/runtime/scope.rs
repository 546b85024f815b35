//! What part of the cluster is looked at.

use k8s_openapi::NamespaceResourceScope;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client, Resource};

/// The namespaces whose objects are reconciled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All of them.
    Cluster,
    /// One.
    Namespace(String),
}

impl Scope {
    /// From `WATCH_NAMESPACE`: empty means all.
    pub fn parse(namespace: &str) -> Self {
        match namespace.trim() {
            "" => Self::Cluster,
            namespace => Self::Namespace(namespace.to_owned()),
        }
    }

    /// All objects of a type within the scope.
    pub(super) fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match self {
            Self::Cluster => Api::all(client.clone()),
            Self::Namespace(namespace) => Api::namespaced(client.clone(), namespace),
        }
    }

    pub(super) fn dynamic_api(&self, client: &Client, resource: &ApiResource) -> Api<DynamicObject> {
        match self {
            Self::Cluster => Api::all_with(client.clone(), resource),
            Self::Namespace(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        }
    }
}
