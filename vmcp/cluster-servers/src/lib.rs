//! Servers that clients add in a cluster. The resources are the source of truth: a remote server becomes an
//! MCPServerEntry, a program an MCPServer, and the operator brings both into `vmcp.yaml` as it does those of
//! people.
//!
//! | module | content |
//! |---|---|
//! | [`registrar`] | [`KubernetesRegistrar`]: adds, removes and switches servers |
//! | [`virtual_server`] | the VirtualMCPServer that this process serves, as the operator describes it |
//! | `rules` | servers that no resource can describe are refused; pure |
//! | `manifests` | the resources and their Secrets; pure |
//! | `ownership` | tells servers that were added here from servers of people and of GitOps; pure |
//! | `server_kind` | MCPServerEntry or MCPServer |
//! | `calls` | calls of the API server, bounded in time and bytes |
//!
//! RBAC grants verbs on a kind, not on labels. The registrar reads an object before each write and touches
//! only objects with the label and the owner of its server; each write names the UID and the version that
//! were read. An admission policy of the chart holds a process that was taken over to the same bounds.
//!
//! Values of headers and variables are in Secrets that the added object owns. The registrar creates them, and
//! has no right to read them again. It leaves out secrets of a server from a registry: the user sets their
//! keys.

mod calls;
mod manifests;
mod ownership;
pub mod registrar;
mod rules;
mod server_kind;
pub mod virtual_server;

pub use manifests::{ADDED_BY, INSTALLED_FROM, MANAGED_BY};
pub use registrar::KubernetesRegistrar;
pub use virtual_server::VirtualServer;
