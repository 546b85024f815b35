//! VirtualMCPCompositeToolDefinition: a composite tool; its status says whether it can be served, and which
//! VirtualMCPServers refer to it.
//!
//! No `build`: it has no children. A VirtualMCPServer takes the tool into `vmcp.yaml`.

mod controller;
pub(crate) mod missing_tools;
mod status;

pub(crate) use self::controller::controller;
