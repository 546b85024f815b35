//! The configuration file on disk: reading it with the files it refers to, hot reload,
//! and changes of servers by clients.

pub(crate) mod edit_lock;
pub mod env_file;
pub(crate) mod file_content;
pub mod file_registrar;
pub(crate) mod keyring;
pub mod reference_lookup;
pub mod secret_store;
pub mod source;
pub mod watch;
