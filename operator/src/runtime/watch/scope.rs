//! The part of the cluster that this operator looks after: every namespace, or one.

use k8s_openapi::NamespaceResourceScope;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client, Resource};

/// The namespaces whose objects are reconciled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All namespaces.
    Cluster,
    /// One namespace.
    Namespace(String),
}

impl Scope {
    /// Reads the value of `WATCH_NAMESPACE`; empty means the whole cluster.
    ///
    /// ```
    /// # use vmcp_operator::runtime::Scope;
    /// assert_eq!(Scope::parse(""), Scope::Cluster);
    /// assert_eq!(Scope::parse(" tools "), Scope::Namespace("tools".to_owned()));
    /// ```
    pub fn parse(namespace: &str) -> Self {
        match namespace.trim() {
            "" => Self::Cluster,
            namespace => Self::Namespace(namespace.to_owned()),
        }
    }

    /// Accesses all objects of a type within the scope.
    pub(super) fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match self {
            Self::Cluster => Api::all(client.clone()),
            Self::Namespace(namespace) => Api::namespaced(client.clone(), namespace),
        }
    }

    /// Accesses all objects of a kind that is known at run time only.
    pub(super) fn dynamic_api(&self, client: &Client, resource: &ApiResource) -> Api<DynamicObject> {
        match self {
            Self::Cluster => Api::all_with(client.clone(), resource),
            Self::Namespace(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        }
    }
}
