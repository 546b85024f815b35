//! MCP clients that cost little, so that a measurement shows the server and not its client.

pub(crate) mod http_connection;
pub(crate) mod mcp_client;
pub(crate) mod replay_client;
