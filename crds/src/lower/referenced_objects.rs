//! Input of the lowering besides the VirtualMCPServer: the objects that it refers to, already read.

use std::collections::BTreeMap;
use std::fmt;

use vmcp_config::addresses::ReachableAddresses;
use vmcp_config::{Authz, Finding, Isolation, ProtocolEra};

use super::webhooks::ReferencedWebhooks;
use crate::fields::references::SecretKeyReference;
use crate::fields::yaml_block::Block;
use crate::mcp_server_entry::RemoteTransport;
use crate::shared_settings::mcp_authz_config::MCPAuthzConfigSpec;
use crate::shared_settings::mcp_external_auth_config::MCPExternalAuthConfigSpec;
use crate::shared_settings::mcp_oidc_config::MCPOIDCConfigSpec;
use crate::shared_settings::mcp_telemetry_config::MCPTelemetryConfigSpec;
use crate::shared_settings::mcp_tool_config::MCPToolConfigSpec;

/// An MCP server behind a VirtualMCPServer, from an MCPServer, an MCPServerEntry or an MCPRemoteProxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// Name of the resource.
    pub name: String,
    /// URL of its MCP endpoint.
    pub url: String,
    /// Transport that it speaks.
    pub transport: RemoteTransport,
    /// Headers sent with every request.
    pub headers: BTreeMap<String, HeaderValue>,
    /// Certificates of authorities, as PEM, that it is trusted by besides those of the system.
    pub ca_bundle: Option<String>,
    /// Addresses that its host may have at each connection.
    pub addresses: ReachableAddresses,
    /// Credentials that are fetched, or kept in an object of their own.
    pub auth: Option<MCPExternalAuthConfigSpec>,
    /// Filter and overrides of its tools, from an MCPToolConfig.
    pub tool_config: Option<MCPToolConfigSpec>,
    /// Clients that share a connection; `None`: the default of the server's transport and era.
    pub isolation: Option<Isolation>,
    /// Era in which it is spoken to; `None`: that of the client.
    pub protocol_era: Option<ProtocolEra>,
    /// `false`: it may not ask clients anything.
    pub questions: bool,
    /// `false`: the backend is listed, but neither connected nor searched nor called, and its secret headers
    /// and credentials are left out. Used for a backend whose Secret does not exist.
    pub enabled: bool,
}

/// Value of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderValue {
    /// Value that is not secret.
    Plain(String),
    /// Secret key that holds the value.
    Secret(SecretKeyReference),
}

/// A composite tool of a VirtualMCPCompositeToolDefinition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferencedCompositeTool {
    /// Name of the resource.
    pub resource: String,
    /// The tool, as an entry of `compositeTools`.
    pub definition: Block,
}

/// An embedding service that the operator runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingService {
    /// Base URL.
    pub endpoint: String,
    /// Model that it serves.
    pub model: Option<String>,
}

/// Check of policies, which this crate cannot parse: returns their mistakes and warnings by their path in
/// `vmcp.yaml`.
#[derive(Clone, Copy)]
pub struct PolicyCheck<'a>(pub &'a dyn Fn(&Authz) -> Vec<Finding>);

/// Accepts all policies, unread.
impl Default for PolicyCheck<'_> {
    fn default() -> Self {
        Self(&|_| Vec::new())
    }
}

impl fmt::Debug for PolicyCheck<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PolicyCheck")
    }
}

/// Issuer of the cluster's ServiceAccount tokens, as the API server names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterIssuer {
    /// Issuer, as in the claim `iss`.
    pub issuer: String,
    /// Key set (JWKS), as JSON.
    pub keys: String,
}

/// Objects that a VirtualMCPServer refers to.
#[derive(Debug, Clone, Default)]
pub struct ReferencedObjects<'a> {
    /// Backends in any order; each name once.
    pub backends: &'a [Backend],
    /// Composite tools that its `compositeToolRefs` lead to: valid, each name once.
    pub composite_tools: &'a [ReferencedCompositeTool],
    /// Check of its policies.
    pub policies: PolicyCheck<'a>,
    /// Spec of its MCPAuthzConfig.
    pub authz: Option<&'a MCPAuthzConfigSpec>,
    /// Content of the ConfigMap that its policies are in.
    pub authz_file: Option<&'a str>,
    /// Spec of its MCPTelemetryConfig.
    pub telemetry: Option<&'a MCPTelemetryConfigSpec>,
    /// Certificates, as PEM, that the `caBundleRef` of its MCPTelemetryConfig leads to.
    pub telemetry_certificates: Option<&'a str>,
    /// Spec of its MCPOIDCConfig.
    pub oidc: Option<&'a MCPOIDCConfigSpec>,
    /// Issuer of ServiceAccount tokens, if that configuration takes the cluster's keys.
    pub cluster_issuer: Option<&'a ClusterIssuer>,
    /// Certificates, as PEM, that its `caBundleRef` leads to.
    pub oidc_certificates: Option<&'a str>,
    /// Certificates, as PEM, that the `caBundleRef` of its decision point leads to.
    pub decision_point_certificates: Option<&'a str>,
    /// MCPWebhookConfigs of it and of its backends, each at most once with each scope.
    pub webhooks: &'a [ReferencedWebhooks],
    /// Its managed or referenced embedding service.
    pub embedding_service: Option<&'a EmbeddingService>,
}
