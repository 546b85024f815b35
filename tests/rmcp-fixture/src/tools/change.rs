//! Tools that change the lists of the server and announce it.

use std::sync::atomic::Ordering;

use rmcp::model::CallToolResult;

use super::text;
use crate::listeners::Change;
use crate::server::Server;

/// Adds a tool, or takes it away again.
pub(crate) async fn tools(server: &Server) -> CallToolResult {
    server.shared.more_tools.fetch_xor(true, Ordering::Relaxed);
    server.shared.listeners.tell(Change::Tools).await;
    text("The list of tools has changed.")
}

/// Adds a prompt, or takes it away again.
pub(crate) async fn prompts(server: &Server) -> CallToolResult {
    server.shared.more_prompts.fetch_xor(true, Ordering::Relaxed);
    server.shared.listeners.tell(Change::Prompts).await;
    text("The list of prompts has changed.")
}

/// Announces a change of the watched resource.
pub(crate) async fn resource(server: &Server) -> CallToolResult {
    server.shared.listeners.tell(Change::Resource("test://watched-resource")).await;
    text("The resource has changed.")
}
