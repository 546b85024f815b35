//! The layers of the client port, one file each; [`super::stack`] assembles them.

pub(super) mod auth_server_route;
pub(super) mod authenticate;
mod challenge;
pub(super) mod cors;
pub(super) mod endpoint;
pub(super) mod host_rules;
pub(super) mod plain_api_route;
pub(super) mod principal_limits;
pub(super) mod read_body;
pub(super) mod record_refusals;
mod resource_metadata;
pub(super) mod step_up;

/// Path of the MCP endpoint.
const MCP_PATH: &str = "/mcp";
