//! [`References`]: everything that a VirtualMCPServer refers to, as it was found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use vmcp_crds::{
    EmbeddingServer, MCPAuthzConfig, MCPExternalAuthConfig, MCPOIDCConfig, MCPServer, MCPServerEntry,
    MCPTelemetryConfig, MCPToolConfig, MCPWebhookConfig, VirtualMCPCompositeToolDefinition,
};

use super::cross_namespace::CrossNamespaceBackends;
use crate::references::{CaBundle, ReferencedSecrets};
use crate::runtime::ClusterIssuerState;
use crate::virtual_mcp_server::last_good::MountedConfiguration;

/// Everything that [`validate`](crate::virtual_mcp_server::validate) reads besides the resource itself.
#[derive(Debug, Default)]
pub(in crate::virtual_mcp_server) struct References {
    /// True if the named MCPGroup exists, or none is named. False for one of another namespace without a
    /// grant.
    pub group_exists: bool,
    /// The MCPServers of the group, by name.
    pub servers: Vec<Arc<MCPServer>>,
    /// The server's own backends, as entries; after them the MCPServerEntries of the group, by name, and its
    /// MCPRemoteProxies, as entries.
    pub entries: Vec<Arc<MCPServerEntry>>,
    /// The backends of other namespaces.
    pub cross_namespace: CrossNamespaceBackends,
    /// The named MCPAuthzConfig, if it exists.
    pub authz: Option<Arc<MCPAuthzConfig>>,
    /// The text of the ConfigMap with its policies.
    pub authz_file: Option<String>,
    /// The MCPExternalAuthConfigs of the namespace, by name.
    pub auth_configs: BTreeMap<String, Arc<MCPExternalAuthConfig>>,
    /// Backends with credentials whose Service does not exist, or belongs to another owner.
    pub without_service: BTreeSet<String>,
    /// The MCPToolConfigs that backends use, by name.
    pub tool_configs: BTreeMap<String, Arc<MCPToolConfig>>,
    /// The MCPWebhookConfigs that the server and its backends use, by name.
    pub webhook_configs: BTreeMap<String, Arc<MCPWebhookConfig>>,
    /// The VirtualMCPCompositeToolDefinitions that it refers to, by name.
    pub composite_tools: BTreeMap<String, Arc<VirtualMCPCompositeToolDefinition>>,
    /// The named MCPTelemetryConfig, if it exists.
    pub telemetry: Option<Arc<MCPTelemetryConfig>>,
    /// The certificates that it refers to.
    pub telemetry_certificates: CaBundle,
    /// The named MCPOIDCConfig, if it exists.
    pub oidc: Option<Arc<MCPOIDCConfig>>,
    /// Issuer and keys of ServiceAccount tokens, if it takes those of the cluster.
    pub cluster_issuer: ClusterIssuerState,
    /// The certificates that it refers to.
    pub oidc_certificates: CaBundle,
    /// The certificates that its decision point refers to.
    pub decision_point_certificates: CaBundle,
    /// The certificates that entries refer to, by name of the entry.
    pub entry_ca_bundles: BTreeMap<String, CaBundle>,
    /// The named or managed EmbeddingServer, if it exists.
    pub embedding_server: Option<Arc<EmbeddingServer>>,
    /// The values of Secrets, as far as they exist.
    pub secrets: ReferencedSecrets,
    /// The values that the operator generated.
    pub generated: GeneratedValues,
    /// The last good configuration, if there is one.
    pub mounted: Option<MountedConfiguration>,
    /// Resources in that configuration that are malformed now, by kind and name.
    pub malformed: Vec<String>,
}

/// Values that the operator generates once and keeps in the server's Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::virtual_mcp_server) struct GeneratedValues {
    /// The bearer token of the admin port.
    pub admin_token: Vec<u8>,
    /// The key that seals session ids.
    pub session_key: Vec<u8>,
    /// The bearer token of `/metrics`, if the resource wants one.
    pub metrics_token: Option<Vec<u8>>,
    /// The trusted definitions of tools, joined from the reports of pods; `None` before the first report.
    pub trusted_tools: Option<Vec<u8>>,
}
