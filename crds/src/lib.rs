//! The Kubernetes resources of vmcp.
//!
//! | form | of |
//! |---|---|
//! | raw types, with schema and CEL rules | what people write |
//! | validated types ([`virtual_mcp_server::Validated`]) | input of the operator, free of contradictions |
//! | [`lower::Lowered`] | the text of `vmcp.yaml` for the pods |
//!
//! Kinds and fields have the names of ToolHive wherever it has one for the same thing. A field exists only if
//! it does something: the API server refuses unknown ones, which is more honest than ignoring them.

#![expect(
    clippy::duplicated_attributes,
    reason = "clippy takes the columns of a table for repetitions of one attribute"
)]

pub mod definitions;
pub mod embedding_server;
pub mod fields;
pub mod lower;
pub mod mcp_group;
pub mod mcp_remote_proxy;
pub mod mcp_server;
pub mod mcp_server_entry;
pub mod problem;
mod reference;
pub mod shared_settings;
pub mod virtual_mcp_server;

pub use self::definitions::api_group::{ApiGroup, GROUP, VERSION};
pub use self::embedding_server::{EmbeddingServer, EmbeddingServerSpec, EmbeddingServerStatus};
pub use self::fields::yaml_block::Block;
pub use self::mcp_group::{
    MCPGroup, MCPGroupSpec, MCPGroupStatus, MCPRegistry, MCPRegistrySpec, MCPRegistryStatus,
};
pub use self::mcp_remote_proxy::{MCPRemoteProxy, MCPRemoteProxySpec, MCPRemoteProxyStatus};
pub use self::mcp_server::{MCPServer, MCPServerSpec, MCPServerStatus};
pub use self::mcp_server_entry::{MCPServerEntry, MCPServerEntrySpec, MCPServerEntryStatus};
pub use self::problem::{Invalid, Problem};
pub use self::reference::reference_markdown;
pub use self::shared_settings::composite_tool_definition::{
    VirtualMCPCompositeToolDefinition, VirtualMCPCompositeToolDefinitionSpec,
    VirtualMCPCompositeToolDefinitionStatus,
};
pub use self::shared_settings::mcp_authz_config::{MCPAuthzConfig, MCPAuthzConfigSpec, MCPAuthzConfigStatus};
pub use self::shared_settings::mcp_external_auth_config::{
    MCPExternalAuthConfig, MCPExternalAuthConfigSpec, MCPExternalAuthConfigStatus,
};
pub use self::shared_settings::mcp_oidc_config::{MCPOIDCConfig, MCPOIDCConfigSpec, MCPOIDCConfigStatus};
pub use self::shared_settings::mcp_telemetry_config::{
    MCPTelemetryConfig, MCPTelemetryConfigSpec, MCPTelemetryConfigStatus,
};
pub use self::shared_settings::mcp_tool_config::{MCPToolConfig, MCPToolConfigSpec, MCPToolConfigStatus};
pub use self::shared_settings::mcp_webhook_config::{
    MCPWebhookConfig, MCPWebhookConfigSpec, MCPWebhookConfigStatus,
};
pub use self::virtual_mcp_server::{VirtualMCPServer, VirtualMCPServerSpec, VirtualMCPServerStatus};
