//! What an operator sees of a backend; the types of `/admin/status`.

pub use vmcp_config::status::{BackendState as State, BackendStatus as Status};
