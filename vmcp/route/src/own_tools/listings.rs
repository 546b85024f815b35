//! Own tools that answer from the snapshot and the search, without a backend: one file each.

pub(super) mod get_tool_alternatives;
pub(crate) mod get_tool_schema;
pub(super) mod language_model;
pub(crate) mod list_mcp_servers;
pub(super) mod list_tools;
mod page;
mod profile_view;
mod ranked;
pub(super) mod recommend_tools;
pub(super) mod search_available_tools;
pub(super) mod search_tools;
pub(super) mod tool_metrics;

pub use list_mcp_servers::listed_servers;
pub use ranked::tools_by_model;

#[cfg(test)]
mod tests;
