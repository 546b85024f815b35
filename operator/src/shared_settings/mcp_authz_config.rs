//! MCPAuthzConfig: policies that VirtualMCPServers share; its status says whether they can be followed.
//!
//! No `build`: it has no children. A VirtualMCPServer that names it takes the policies into its `vmcp.yaml`.

mod controller;
mod status;
mod validate;

pub(crate) use self::controller::controller;
