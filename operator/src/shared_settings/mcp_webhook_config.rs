//! MCPWebhookConfig: services that are asked about calls of tools; its status says whether they can be.
//!
//! No `build`: it has no children. A VirtualMCPServer takes the settings of its own and of its backends into
//! `vmcp.yaml`.

mod controller;
mod status;
mod validate;

pub(crate) use self::controller::controller;
pub(crate) use self::validate::{WebhookConfigFault, validate};
