//! MCPServerEntry: an MCP server that runs elsewhere; its status says whether it can be used as a backend.
//!
//! No `build`: it has no children. A VirtualMCPServer of its group takes it into `vmcp.yaml`.

mod controller;
mod dereference;
mod endpoint;
mod status;
#[cfg(test)]
mod tests;
mod validate;

pub(crate) use self::controller::controller;
pub(crate) use self::dereference::secret_references;
pub(crate) use self::validate::validate;
