//! What every reconciler has at hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::core::PartialObjectMeta;
use kube::runtime::events::{Recorder, Reporter};
use kube::{Client, ResourceExt as _};
use tokio_util::sync::CancellationToken;
use vmcp_crds::{EmbeddingServer, MCPGroup, MCPServer, MCPServerEntry, MCPTelemetryConfig, VirtualMCPServer};

use super::apply::Settled;
use super::children::{MANAGED_BY, OPERATOR};
use super::secrets::{self, SecretCache};
use super::{ChildKind, Children, Kind, Leadership, Metrics, Scope};

/// What is decided on the command line and concerns the objects that are built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The image that holds `vmcp`.
    pub vmcp_image: String,
    /// The image whose `vmcp` is copied into pods with a stdio server.
    pub bridge_image: String,
    /// The DNS domain of the cluster.
    pub cluster_domain: String,
}

/// All objects that reconcilers look at, kept up to date by watches.
#[derive(Default)]
pub struct Resources {
    /// Our own.
    pub virtual_mcp_servers: Kind<VirtualMCPServer>,
    /// Our own.
    pub mcp_groups: Kind<MCPGroup>,
    /// Our own.
    pub mcp_servers: Kind<MCPServer>,
    /// Our own.
    pub mcp_server_entries: Kind<MCPServerEntry>,
    /// Our own.
    pub embedding_servers: Kind<EmbeddingServer>,
    /// Our own.
    pub telemetry_configs: Kind<MCPTelemetryConfig>,
    /// Pods that the operator's workloads made. Of their spec, nothing is kept but the containers' ports.
    pub pods: Kind<Pod>,
    /// Secrets, without their data: [`Context::secret`] has it.
    pub secrets: Kind<PartialObjectMeta<Secret>>,
}

/// What every reconciler has at hand. Shared by all controllers.
pub struct Context {
    /// For reads that no watch covers. Writes go through [`Context::apply`] and [`Context::write_status`].
    pub client: Client,
    /// See there.
    pub settings: Settings,
    /// See there.
    pub resources: Resources,
    /// See there.
    pub children: Children,
    /// See there.
    pub metrics: Arc<Metrics>,
    /// Whether this replica may write.
    pub leadership: Leadership,
    /// Cancelled when the process is to end.
    pub shutdown: CancellationToken,
    pub(super) scope: Scope,
    pub(super) recorder: Recorder,
    pub(super) secret_cache: SecretCache,
    pub(super) settled: Settled,
}

impl Context {
    /// Nothing is watched yet: make the controllers' [`Triggers`](super::Triggers) first, then run [`Context::watch`].
    pub fn new(
        client: Client,
        settings: Settings,
        scope: Scope,
        metrics: Arc<Metrics>,
        leadership: Leadership,
        identity: &str,
        shutdown: CancellationToken,
    ) -> Arc<Self> {
        let reporter = Reporter { controller: OPERATOR.into(), instance: Some(identity.to_owned()) };
        Arc::new(Self {
            recorder: Recorder::new(client.clone(), reporter),
            client,
            settings,
            resources: Resources::default(),
            children: Children::default(),
            metrics,
            leadership,
            shutdown,
            scope,
            secret_cache: SecretCache::default(),
            settled: Settled::default(),
        })
    }

    /// Watches everything until the process is to end.
    pub async fn watch(&self) {
        let ours = format!("{MANAGED_BY}={OPERATOR}");
        let all = &self.resources;
        let watches: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
        watches.push(all.virtual_mcp_servers.watch(self, None, |_| ()).boxed());
        watches.push(all.mcp_groups.watch(self, None, |_| ()).boxed());
        watches.push(all.mcp_servers.watch(self, None, |_| ()).boxed());
        watches.push(all.mcp_server_entries.watch(self, None, |_| ()).boxed());
        watches.push(all.embedding_servers.watch(self, None, |_| ()).boxed());
        watches.push(all.telemetry_configs.watch(self, None, |_| ()).boxed());
        watches.push(all.pods.watch(self, Some(&ours), trim_pod).boxed());
        watches.push(all.secrets.watch(self, None, secrets::trim).boxed());
        for kind in ChildKind::ALL {
            watches.push(self.children.watch(self, kind).boxed());
        }
        let watches = watches.collect::<()>();
        let _ = self.shutdown.run_until_cancelled(watches).await;
    }

    /// Waits until everything was listed once. A reconcile before that would see an empty world.
    pub async fn ready(&self) {
        let all = &self.resources;
        tokio::join!(
            all.virtual_mcp_servers.ready(),
            all.mcp_groups.ready(),
            all.mcp_servers.ready(),
            all.mcp_server_entries.ready(),
            all.embedding_servers.ready(),
            all.telemetry_configs.ready(),
            all.pods.ready(),
            all.secrets.ready(),
            self.children.ready(),
        );
    }

    /// The pods of a workload, by name: those of its namespace that carry all its [`labels`](super::labels).
    pub fn pods(&self, namespace: &str, labels: &BTreeMap<String, String>) -> Vec<Arc<Pod>> {
        let mut pods = self.resources.pods.list(namespace);
        pods.retain(|pod| labels.iter().all(|(key, value)| pod.labels().get(key) == Some(value)));
        pods
    }

    /// Forgets an owner that is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.settled.forget(uid);
    }
}

/// A pod's spec is larger than everything else that is kept of it.
fn trim_pod(pod: &mut Pod) {
    let Some(spec) = &mut pod.spec else { return };
    let containers = std::mem::take(&mut spec.containers);
    *spec = k8s_openapi::api::core::v1::PodSpec::default();
    spec.containers = containers
        .into_iter()
        .map(|container| k8s_openapi::api::core::v1::Container {
            name: container.name,
            image: container.image,
            ports: container.ports,
            ..Default::default()
        })
        .collect();
}
