//! MCPRemoteProxy: an MCPServerEntry as ToolHive's users write it; its status says whether it can be used.
//!
//! No `build`: no proxy is run. A VirtualMCPServer of its group takes it into `vmcp.yaml` as an entry.

mod controller;
mod status;

pub(crate) use self::controller::controller;
