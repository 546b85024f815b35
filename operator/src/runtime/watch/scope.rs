//! The part of the cluster that this operator looks after: every namespace, or those of a list.

use std::collections::BTreeSet;

use kube::api::ApiResource;
use kube::core::DynamicResourceScope;
use kube::{Api, Client, Resource};

/// The namespaces whose objects are reconciled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All namespaces.
    Cluster,
    /// The namespaces of a list; each kind is watched once in each.
    Namespaces(BTreeSet<String>),
}

impl Scope {
    /// Reads the value of `WATCH_NAMESPACE`: names between commas; empty means the whole cluster.
    ///
    /// ```
    /// # use vmcp_operator::runtime::Scope;
    /// assert_eq!(Scope::parse(" "), Scope::Cluster);
    /// let Scope::Namespaces(names) = Scope::parse("tools, search,") else { panic!() };
    /// assert_eq!(names.into_iter().collect::<Vec<_>>(), ["search", "tools"]);
    /// ```
    pub fn parse(namespaces: &str) -> Self {
        let names = namespaces.split(',').map(str::trim).filter(|name| !name.is_empty());
        let names: BTreeSet<_> = names.map(str::to_owned).collect();
        if names.is_empty() { Self::Cluster } else { Self::Namespaces(names) }
    }

    /// Returns the parts that are watched apart: `None` is the whole cluster.
    pub(crate) fn parts(&self) -> Vec<Option<String>> {
        match self {
            Self::Cluster => vec![None],
            Self::Namespaces(names) => names.iter().cloned().map(Some).collect(),
        }
    }
}

/// Accesses all objects of a resource within one part of the scope.
pub(super) fn api<K>(client: &Client, part: Option<&str>, resource: &ApiResource) -> Api<K>
where
    K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
{
    match part {
        None => Api::all_with(client.clone(), resource),
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
    }
}
