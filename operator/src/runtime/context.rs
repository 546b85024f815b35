//! The context of every reconcile: stores of the cluster's state, the client, the settings, and the
//! permission to write.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::{LocalObjectReference, Pod};
use kube::api::ApiResource;
use kube::runtime::events::{Recorder, Reporter};
use kube::{Client, Resource, ResourceExt as _};
use tokio_util::sync::CancellationToken;
use vmcp_crds::ApiGroup;

use super::cluster_issuer::{ClusterIssuerCache, ClusterIssuerState};
use super::lead::Leadership;
use super::metrics::Metrics;
use super::pod_schema::PodSchema;
use super::policy_checker::PolicyChecker;
use super::watch::{
    ChildKind, ChildrenStore, Clients, FirstLists, History, NormalizedFields, OPERATOR_NAME, ResourceStores,
    Scope, ValueCache, WatchEnvironment,
};

/// The kind and name of a role of RBAC, as in `ClusterRole/NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleName {
    /// `ClusterRole` or `Role`.
    pub kind: String,
    /// Name of the role.
    pub name: String,
}

impl RoleName {
    /// Returns the second role, with the rights about programs.
    pub(crate) fn for_programs(&self) -> Self {
        Self { kind: self.kind.clone(), name: format!("{}-programs", self.name) }
    }
}

impl FromStr for RoleName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((kind @ ("ClusterRole" | "Role"), name)) if !name.is_empty() && !name.contains('/') => {
                Ok(Self { kind: kind.to_owned(), name: name.to_owned() })
            }
            _ => Err("not a role; write ClusterRole/NAME or Role/NAME"),
        }
    }
}

/// Options of the command line that controllers follow.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub struct BuildSettings {
    /// The group of the watched resources, which own the made objects.
    pub api_group: ApiGroup,
    /// The image that holds `vmcp`, for VirtualMCPServers that name none.
    pub vmcp_image: String,
    /// The image whose `vmcp` is copied into pods with a stdio server.
    pub bridge_image: String,
    /// The DNS domain of the cluster, as in `cluster.local`.
    pub cluster_domain: String,
    /// True if HTTPRoutes may be made: they lead traffic of shared gateways to the authors of resources.
    pub http_routes: bool,
    /// True if ServiceMonitors may be made.
    pub service_monitors: bool,
    /// The role that servers get whose scripts run as Jobs; `None`: none may.
    pub script_jobs_role: Option<RoleName>,
    /// The role that servers get whose clients may add servers; `None`: none may. The role of the same name
    /// with `-programs` at its end is for programs.
    pub server_admin_role: Option<RoleName>,
    /// True if an admission policy checks the rights of authors, or authors are trusted.
    pub authors_checked: bool,
    /// True if pods run as a user that the operator names; false where the platform names one (OpenShift).
    pub fixed_user: bool,
    /// The operator's own namespace, if it runs in a cluster.
    pub operator_namespace: Option<String>,
    /// True if registries are asked for the entrypoint of an image.
    pub look_up_images: bool,
    /// Registries that are asked over plain HTTP.
    pub plain_http_registries: Vec<String>,
    /// Secrets that every pod is pulled with besides its own, by name, in the namespace of the pod.
    pub pod_image_pull_secrets: Vec<String>,
    /// The interval at which a resource is looked at again of which nothing changed.
    pub resync_interval: Duration,
    /// The rules by which `spec.podTemplateSpec` is merged; no option, but read from the API server at start.
    pub pod_schema: Arc<PodSchema>,
}

impl BuildSettings {
    /// Returns true if the installation lets the operator make objects of the kind.
    pub(crate) fn enables(&self, kind: ChildKind) -> bool {
        match kind {
            ChildKind::HTTPRoute => self.http_routes,
            ChildKind::ServiceMonitor => self.service_monitors,
            ChildKind::RoleBinding => self.script_jobs_role.is_some() || self.server_admin_role.is_some(),
            _ => true,
        }
    }

    /// Returns the Secrets that a pod is pulled with: its own, and those of every pod.
    pub(crate) fn pull_secrets(&self, own: &[LocalObjectReference]) -> Vec<LocalObjectReference> {
        let mut secrets = own.to_vec();
        for name in &self.pod_image_pull_secrets {
            if secrets.iter().all(|secret| secret.name != *name) {
                secrets.push(LocalObjectReference { name: name.clone() });
            }
        }
        secrets
    }

    /// Returns true if objects of the kind are watched. Routes and monitors are, also while they are switched
    /// off: the operator deletes its earlier objects.
    fn watches(&self, kind: ChildKind) -> bool {
        self.enables(kind) || matches!(kind, ChildKind::HTTPRoute | ChildKind::ServiceMonitor)
    }
}

impl Default for BuildSettings {
    fn default() -> Self {
        Self {
            api_group: ApiGroup::default(),
            vmcp_image: String::new(),
            bridge_image: String::new(),
            cluster_domain: "cluster.local".to_owned(),
            http_routes: false,
            service_monitors: false,
            script_jobs_role: None,
            server_admin_role: None,
            authors_checked: true,
            fixed_user: true,
            operator_namespace: None,
            look_up_images: true,
            plain_http_registries: Vec::new(),
            pod_image_pull_secrets: Vec::new(),
            resync_interval: Duration::from_mins(5),
            pod_schema: Arc::default(),
        }
    }
}

/// The state that all controllers share.
pub struct Context {
    /// The API server. Writes go through [`Context::apply`] and [`Context::write_status`].
    pub client: Client,
    /// Options that decide how objects are built.
    pub settings: BuildSettings,
    /// Resources, Pods and Secrets, as watches bring them.
    pub resources: ResourceStores,
    /// Objects that the operator made, as watches and its own writes bring them.
    pub children: ChildrenStore,
    /// Counters of this process.
    pub metrics: Arc<Metrics>,
    /// The permission to write, which ends with the lease.
    pub leadership: Leadership,
    /// Check of the policies of resources.
    pub(crate) policies: PolicyChecker,
    /// Cancelled when the process is to end.
    pub shutdown: CancellationToken,
    clients: Clients,
    pub(super) scope: Scope,
    pub(super) first_lists: FirstLists,
    history: History,
    pub(super) recorder: Recorder,
    pub(super) secret_cache: ValueCache,
    pub(super) config_map_cache: ValueCache,
    pub(super) normalized_fields: NormalizedFields,
    cluster_issuer: ClusterIssuerCache,
}

impl Context {
    /// Makes a context with empty stores: make the controllers' [`Triggers`](super::Triggers) next, then run
    /// [`Context::watch`].
    pub fn new(
        clients: Clients,
        settings: BuildSettings,
        scope: Scope,
        metrics: Arc<Metrics>,
        leadership: Leadership,
        identity: &str,
        shutdown: CancellationToken,
    ) -> Arc<Self> {
        let client = clients.for_calls().clone();
        let reporter = Reporter { controller: OPERATOR_NAME.into(), instance: Some(identity.to_owned()) };
        let resources = ResourceStores::default();
        let (children, disabled): (Vec<_>, Vec<_>) =
            ChildKind::ALL.into_iter().partition(|kind| settings.enables(*kind));
        // A kind that is switched off holds nothing up: its objects go whenever they are listed.
        let first_lists = FirstLists::awaiting(scope.parts().iter().flat_map(|part| {
            let children = children.iter().map(|kind| ChildrenStore::watch_name(*kind, part.clone()));
            resources.watch_names(part.as_deref()).chain(children).collect::<Vec<_>>()
        }));
        Arc::new(Self {
            recorder: Recorder::new(client.clone(), reporter),
            client,
            clients,
            settings,
            resources,
            children: ChildrenStore::without(disabled),
            metrics,
            leadership,
            policies: PolicyChecker::default(),
            shutdown,
            scope,
            first_lists,
            history: History::default(),
            secret_cache: ValueCache::default(),
            config_map_cache: ValueCache::default(),
            normalized_fields: NormalizedFields::default(),
            cluster_issuer: ClusterIssuerCache::default(),
        })
    }

    /// Fills the stores until the process is to end. Called once, after all [`Triggers`](super::Triggers)
    /// were made.
    pub async fn watch(&self) {
        let environment = WatchEnvironment {
            clients: &self.clients,
            scope: &self.scope,
            api_group: self.settings.api_group,
            metrics: &self.metrics,
            first_lists: &self.first_lists,
            history: &self.history,
        };
        let watches = FuturesUnordered::new();
        watches.push(self.resources.watch(&environment).boxed());
        for part in self.scope.parts() {
            for kind in ChildKind::ALL.into_iter().filter(|kind| self.settings.watches(*kind)) {
                watches.push(self.children.watch(&environment, kind, part.clone()).boxed());
            }
        }
        let forget = || {
            self.secret_cache.clear();
            self.config_map_cache.clear();
        };
        watches.push(self.history.follow(&environment, forget).boxed());
        let _ = self.shutdown.run_until_cancelled(watches.collect::<()>()).await;
    }

    /// Waits until everything was listed once. A reconcile before that would see an empty group, and write a
    /// configuration without backends.
    pub async fn ready(&self) {
        self.first_lists.ready().await;
    }

    /// Returns the watches that have not listed yet, with their last errors; `None` once all have.
    pub(crate) fn pending_lists(&self) -> Option<String> {
        self.first_lists.pending()
    }

    /// Returns issuer and keys of the cluster's ServiceAccount tokens, if they are needed.
    pub(crate) async fn cluster_issuer(&self, is_needed: bool) -> ClusterIssuerState {
        if is_needed { self.cluster_issuer.state(&self.client).await } else { ClusterIssuerState::NotNeeded }
    }

    /// Returns true if objects of this namespace are watched.
    pub(crate) fn watches(&self, namespace: &str) -> bool {
        self.scope.contains(namespace)
    }

    /// Returns the pods of a workload: those of its namespace that carry all its labels.
    pub fn pods(&self, namespace: &str, labels: &BTreeMap<String, String>) -> Vec<Arc<Pod>> {
        let mut pods = self.resources.pods.list(namespace);
        pods.retain(|pod| labels.iter().all(|(key, value)| pod.labels().get(key) == Some(value)));
        pods
    }

    /// Returns the kind and phase of every resource that runs pods.
    pub(crate) fn phases(&self) -> Vec<(&'static str, String)> {
        let all = &self.resources;
        let mut phases = Vec::new();
        let mut add = |kind: &'static str, phase: Option<String>| {
            phases.push((kind, phase.unwrap_or_else(|| "Pending".to_owned())));
        };
        for server in all.virtual_mcp_servers.select(|_| true) {
            let phase = server.status.as_ref().and_then(|status| status.phase);
            add("VirtualMCPServer", phase.map(|phase| format!("{phase:?}")));
        }
        for server in all.mcp_servers.select(|_| true) {
            let phase = server.status.as_ref().and_then(|status| status.phase);
            add("MCPServer", phase.map(|phase| format!("{phase:?}")));
        }
        for server in all.embedding_servers.select(|_| true) {
            let phase = server.status.as_ref().and_then(|status| status.phase);
            add("EmbeddingServer", phase.map(|phase| format!("{phase:?}")));
        }
        for registry in all.mcp_registries.select(|_| true) {
            let phase = registry.status.as_ref().and_then(|status| status.phase);
            add("MCPRegistry", phase.map(|phase| format!("{phase:?}")));
        }
        phases
    }

    /// Returns the group, version and plural under which the API server serves a type to this context.
    pub(super) fn resource_of<K: Resource<DynamicType = ()>>(&self) -> ApiResource {
        self.settings.api_group.resource(ApiResource::erase::<K>(&()))
    }

    /// Forgets an owner that is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.normalized_fields.forget(uid);
    }
}
