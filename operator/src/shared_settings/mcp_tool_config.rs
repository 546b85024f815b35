//! MCPToolConfig: a filter and overrides of tools; its status says whether they can be followed.
//!
//! No `build`: it has no children. A VirtualMCPServer takes the settings of its backends into `vmcp.yaml`.

mod controller;
mod status;
mod validate;

pub(crate) use self::controller::controller;
pub(crate) use self::validate::validate;
