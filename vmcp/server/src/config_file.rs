//! The configuration file on disk: reading it with the files it refers to, and hot reload.

pub mod env_file;
pub(crate) mod keyring;
pub mod reference_lookup;
pub mod secret_store;
pub mod source;
pub mod watch;
