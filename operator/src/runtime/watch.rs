//! Reads of the cluster: one watch for each kind, shared by all controllers, and the in-memory stores that
//! the watches fill.
//!
//! [`ResourceStores`] holds the resources that controllers reconcile or react to, [`ChildrenStore`] the
//! objects that the operator made. A reconciler reads from these stores and asks the API server for almost
//! nothing. Every watch lists, then follows. An interrupted watch starts again with exponential backoff;
//! after a restore of etcd ([`History`]) all watches start again.

mod child_kind;
mod children_store;
mod first_lists;
mod history;
mod labels;
mod normalized_fields;
mod parsed;
mod resource_store;
mod resource_stores;
mod scope;
mod stored_child;
mod value_cache;
mod watch_error;

use vmcp_crds::ApiGroup;

use super::metrics::Metrics;

pub use self::child_kind::{ChildKind, ChildType};
pub use self::children_store::ChildrenStore;
pub(crate) use self::first_lists::{FirstLists, WatchName};
pub(crate) use self::history::History;
pub(crate) use self::labels::{
    INSTANCE_LABEL, MANAGED_BY_LABEL, OPERATOR_NAME, child_metadata, controller_of, workload_labels,
};
pub(crate) use self::normalized_fields::NormalizedFields;
pub use self::parsed::{CustomResource, Parsed, WatchedResource, kind_of};
pub use self::resource_store::{Change, ResourceStore};
pub use self::resource_stores::{GrantFrom, GrantTo, ReferenceGrant, ReferenceGrantSpec, ResourceStores};
pub use self::scope::{Clients, Scope};
pub(crate) use self::value_cache::{ObjectData, ValueCache};

/// The connections of a watch: where it reads, how much of the cluster, and where interruptions are counted.
pub(crate) struct WatchEnvironment<'a> {
    /// The API server.
    pub(crate) clients: &'a Clients,
    /// The namespaces that are watched.
    pub(crate) scope: &'a Scope,
    /// The group in which the operator's own kinds are watched.
    pub(crate) api_group: ApiGroup,
    /// Counts interrupted watches.
    pub(crate) metrics: &'a Metrics,
    /// Progress of the first lists.
    pub(crate) first_lists: &'a FirstLists,
    /// Restores of etcd, after which watches list again.
    pub(crate) history: &'a History,
}
