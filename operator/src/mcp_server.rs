//! MCPServer: an MCP server in pods of its own; a stdio server runs behind `vmcp bridge`, which speaks HTTP
//! for it.

mod bridge_report;
mod build;
mod controller;
mod dereference;
mod guards;
mod image_program;
mod names;
mod network_policy;
mod permission_profile;
mod running_bridge;
mod status;
#[cfg(test)]
mod tests;
mod validate;

pub(crate) use self::controller::controller;
pub(crate) use self::names::{backend, child_name};
