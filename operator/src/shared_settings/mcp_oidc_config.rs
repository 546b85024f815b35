//! MCPOIDCConfig: an identity provider that VirtualMCPServers share; its status says whether it can be used.
//!
//! No `build`: it has no children. A VirtualMCPServer that names it takes the settings into its `vmcp.yaml`.

mod certificates;
mod controller;
mod status;
mod validate;

pub(crate) use self::certificates::{OidcCertificates, certificates, config_map_of};
pub(crate) use self::controller::controller;
pub(crate) use self::validate::validate;
