//! MCPGroup: the names of its members, written into its status.
//!
//! Only `controller` and `status`: a group refers to nothing (its members refer to it), any group is valid,
//! and none has children. [`mcp_registry`] runs a catalog of servers.

mod controller;
pub(crate) mod mcp_registry;
mod status;

pub(crate) use self::controller::controller;
