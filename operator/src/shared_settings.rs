//! Kinds without children: settings and composite tools that VirtualMCPServers share, each with a status that
//! says whether they can be used.

pub(crate) mod composite_tool_definition;
pub(crate) mod mcp_authz_config;
pub(crate) mod mcp_external_auth_config;
pub(crate) mod mcp_oidc_config;
pub(crate) mod mcp_telemetry_config;
pub(crate) mod mcp_tool_config;
pub(crate) mod mcp_webhook_config;
