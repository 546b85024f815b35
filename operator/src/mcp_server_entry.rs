//! MCPServerEntry: an MCP server that runs elsewhere; its status says whether it can be used as a backend.
//!
//! No `build`: it has no children. A VirtualMCPServer of its group takes it into `vmcp.yaml`.

mod added_address;
mod controller;
mod dereference;
pub(crate) mod remote_proxy;
mod status;
#[cfg(test)]
mod tests;
mod validate;

pub(crate) use self::added_address::{addresses_of_added, problem as problem_of_added};
pub(crate) use self::controller::controller;
pub(crate) use self::dereference::{ca_bundle, dereference, secret_references};
use self::status::set_checks;
pub(crate) use self::validate::{ValidatedEntry, validate};
