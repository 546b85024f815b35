//! Commands that set up vmcp: the configuration file, its secrets, the local model, a cluster.

pub(super) mod add;
pub(super) mod config_edit;
pub(super) mod init;
mod known_variables;
pub(super) mod kubernetes;
mod left_secrets;
pub(super) mod model;
pub(super) mod registry;
pub(super) mod remove;
pub(super) mod schema;
pub(super) mod secret;
pub(super) mod server_arguments;
pub(super) mod validate;
