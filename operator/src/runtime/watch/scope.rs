//! The part of the cluster that this operator looks after: every namespace, all but a few, or those of a
//! list.
//!
//! Two operators that look after one namespace would undo each other's writes. Where a release has a
//! namespace to itself, the release for the whole cluster excludes it: its watches never bring an object from
//! there.

mod clients;

use std::collections::BTreeSet;

pub use self::clients::Clients;
use kube::api::ApiResource;
use kube::core::DynamicResourceScope;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};

/// The namespaces whose objects are reconciled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All namespaces but the excluded ones, which other operators serve.
    Cluster {
        /// The namespaces that are left out.
        except: BTreeSet<String>,
    },
    /// The namespaces of a list; each kind is watched once in each.
    Namespaces(BTreeSet<String>),
}

impl Scope {
    /// Reads the values of `WATCH_NAMESPACE` and `EXCLUDE_NAMESPACES`: names between commas. Without the
    /// first it is the whole cluster, and only then does the second matter.
    ///
    /// ```
    /// # use vmcp_operator::runtime::Scope;
    /// let Scope::Namespaces(names) = Scope::parse("tools, search,", "") else { panic!() };
    /// assert_eq!(names.into_iter().collect::<Vec<_>>(), ["search", "tools"]);
    /// let Scope::Cluster { except } = Scope::parse(" ", "staging") else { panic!() };
    /// assert_eq!(except.into_iter().collect::<Vec<_>>(), ["staging"]);
    /// ```
    pub fn parse(namespaces: &str, excluded: &str) -> Self {
        let names = names(namespaces);
        if names.is_empty() {
            Self::Cluster { except: self::names(excluded) }
        } else {
            Self::Namespaces(names)
        }
    }

    /// Returns the configuration of a watch that leaves out the excluded namespaces.
    pub(super) fn watch_config(&self) -> watcher::Config {
        let config = watcher::Config::default();
        match self {
            Self::Cluster { except } if !except.is_empty() => {
                let without: Vec<_> =
                    except.iter().map(|name| format!("metadata.namespace!={name}")).collect();
                config.fields(&without.join(","))
            }
            _ => config,
        }
    }

    /// Returns true if objects of this namespace are watched.
    pub(crate) fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::Cluster { except } => !except.contains(namespace),
            Self::Namespaces(names) => names.contains(namespace),
        }
    }

    /// Returns the parts that are watched apart: `None` is the whole cluster.
    pub(crate) fn parts(&self) -> Vec<Option<String>> {
        match self {
            Self::Cluster { .. } => vec![None],
            Self::Namespaces(names) => names.iter().cloned().map(Some).collect(),
        }
    }
}

/// Reads names between commas.
fn names(text: &str) -> BTreeSet<String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_watched_unless_it_is_left_out() {
        let contains = |scope: Scope| ["a", "b"].map(|namespace| scope.contains(namespace));
        assert_eq!(contains(Scope::parse("a", "")), [true, false]);
        assert_eq!(contains(Scope::parse("", "a")), [false, true]);
        assert_eq!(contains(Scope::parse("", "")), [true, true]);
    }

    #[test]
    fn watches_leave_out_the_excluded_namespaces() {
        let fields = |scope: Scope| scope.watch_config().field_selector;
        assert_eq!(
            fields(Scope::parse("", "b, a")).as_deref(),
            Some("metadata.namespace!=a,metadata.namespace!=b")
        );
        assert_eq!(fields(Scope::parse("", "")), None);
        assert_eq!(fields(Scope::parse("a", "b")), None, "a list names what is watched");
    }
}
