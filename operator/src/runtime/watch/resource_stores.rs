//! The stores of every kind that a controller reconciles or reacts to, and what is dropped before an object
//! is kept.

mod reference_grant;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::ApiResource;
use kube::core::PartialObjectMeta;
use vmcp_crds::{
    EmbeddingServer, MCPAuthzConfig, MCPExternalAuthConfig, MCPGroup, MCPOIDCConfig, MCPRegistry,
    MCPRemoteProxy, MCPServer, MCPServerEntry, MCPTelemetryConfig, MCPToolConfig, MCPWebhookConfig,
    VirtualMCPCompositeToolDefinition, VirtualMCPServer,
};

pub use self::reference_grant::{GrantFrom, GrantTo, ReferenceGrant, ReferenceGrantSpec};
use super::resource_store::AnyResourceStore;
use super::{MANAGED_BY_LABEL, OPERATOR_NAME, ResourceStore, WatchEnvironment, WatchName, value_cache};

/// All objects that reconcilers read, kept up to date by watches.
pub struct ResourceStores {
    /// Every VirtualMCPServer.
    pub virtual_mcp_servers: ResourceStore<VirtualMCPServer>,
    /// Every MCPGroup.
    pub mcp_groups: ResourceStore<MCPGroup>,
    /// Every MCPServer.
    pub mcp_servers: ResourceStore<MCPServer>,
    /// Every MCPServerEntry.
    pub mcp_server_entries: ResourceStore<MCPServerEntry>,
    /// Every MCPRemoteProxy.
    pub mcp_remote_proxies: ResourceStore<MCPRemoteProxy>,
    /// Every EmbeddingServer, including the ones of VirtualMCPServers.
    pub embedding_servers: ResourceStore<EmbeddingServer>,
    /// Every MCPRegistry.
    pub mcp_registries: ResourceStore<MCPRegistry>,
    /// Every MCPAuthzConfig.
    pub authz_configs: ResourceStore<MCPAuthzConfig>,
    /// Every MCPTelemetryConfig.
    pub telemetry_configs: ResourceStore<MCPTelemetryConfig>,
    /// Every MCPOIDCConfig.
    pub oidc_configs: ResourceStore<MCPOIDCConfig>,
    /// Every MCPExternalAuthConfig.
    pub external_auth_configs: ResourceStore<MCPExternalAuthConfig>,
    /// Every MCPToolConfig.
    pub tool_configs: ResourceStore<MCPToolConfig>,
    /// Every MCPWebhookConfig.
    pub webhook_configs: ResourceStore<MCPWebhookConfig>,
    /// Every VirtualMCPCompositeToolDefinition.
    pub composite_tool_definitions: ResourceStore<VirtualMCPCompositeToolDefinition>,
    /// Every ReferenceGrant, if the cluster has the kind.
    pub reference_grants: ResourceStore<ReferenceGrant>,
    /// Pods that the operator's workloads made, without their spec.
    pub pods: ResourceStore<Pod>,
    /// Every Secret, without its data: `Context::secret` reads that.
    pub secrets: ResourceStore<PartialObjectMeta<Secret>>,
    /// Every ConfigMap, without its data: `Context::config_map` reads that.
    pub config_maps: ResourceStore<PartialObjectMeta<ConfigMap>>,
}

impl Default for ResourceStores {
    fn default() -> Self {
        let ours = format!("{MANAGED_BY_LABEL}={OPERATOR_NAME}");
        Self {
            virtual_mcp_servers: ResourceStore::default(),
            mcp_groups: ResourceStore::default(),
            mcp_servers: ResourceStore::default(),
            mcp_server_entries: ResourceStore::default(),
            mcp_remote_proxies: ResourceStore::default(),
            embedding_servers: ResourceStore::default(),
            mcp_registries: ResourceStore::default(),
            authz_configs: ResourceStore::default(),
            telemetry_configs: ResourceStore::default(),
            oidc_configs: ResourceStore::default(),
            external_auth_configs: ResourceStore::default(),
            tool_configs: ResourceStore::default(),
            webhook_configs: ResourceStore::default(),
            composite_tool_definitions: ResourceStore::default(),
            reference_grants: ResourceStore::optional(),
            pods: ResourceStore::new(Some(ours), trim_pod),
            secrets: ResourceStore::new(None, value_cache::trim),
            config_maps: ResourceStore::new(None, value_cache::trim),
        }
    }
}

impl ResourceStores {
    /// Lists every store; a new field that is missing here does not compile.
    fn all(&self) -> [&dyn AnyResourceStore; 18] {
        let Self {
            virtual_mcp_servers,
            mcp_groups,
            mcp_servers,
            mcp_server_entries,
            mcp_remote_proxies,
            embedding_servers,
            mcp_registries,
            authz_configs,
            telemetry_configs,
            oidc_configs,
            external_auth_configs,
            tool_configs,
            webhook_configs,
            composite_tool_definitions,
            reference_grants,
            pods,
            secrets,
            config_maps,
        } = self;
        [
            virtual_mcp_servers,
            mcp_groups,
            mcp_servers,
            mcp_server_entries,
            mcp_remote_proxies,
            embedding_servers,
            mcp_registries,
            authz_configs,
            telemetry_configs,
            oidc_configs,
            external_auth_configs,
            tool_configs,
            webhook_configs,
            composite_tool_definitions,
            reference_grants,
            pods,
            secrets,
            config_maps,
        ]
    }

    /// Returns the kinds that are watched: the operator needs the rights `list` and `watch` of each.
    pub(crate) fn watched(&self) -> impl Iterator<Item = ApiResource> {
        self.all().into_iter().map(AnyResourceStore::resource)
    }

    /// Fills all stores until the process ends. Called once, after all listeners are registered.
    pub(crate) async fn watch(&self, environment: &WatchEnvironment<'_>) {
        let watches = self.all().map(|store| store.watch(environment));
        watches.into_iter().collect::<FuturesUnordered<_>>().collect::<()>().await;
    }

    /// Returns the watches that [`ResourceStores::watch`] runs for one part of the scope.
    pub(crate) fn watch_names(&self, part: Option<&str>) -> impl Iterator<Item = WatchName> {
        self.all().into_iter().map(move |store| store.watch_name(part.map(str::to_owned)))
    }
}

/// Drops the spec of a pod, which is larger than everything else of it and which no controller reads.
fn trim_pod(pod: &mut Pod) {
    pod.spec = None;
}
