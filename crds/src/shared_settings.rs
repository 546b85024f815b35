//! Kinds without children: settings and composite tools that VirtualMCPServers share.

pub mod composite_tool_definition;
pub mod mcp_authz_config;
pub mod mcp_external_auth_config;
pub mod mcp_oidc_config;
pub mod mcp_telemetry_config;
pub mod mcp_tool_config;
pub mod mcp_webhook_config;
