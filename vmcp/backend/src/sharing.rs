//! One connection and its sessions, shared by all calls to a backend.

pub(crate) mod call;
pub(crate) mod core;
pub(crate) mod session;
pub(crate) mod session_pool;
pub(crate) mod session_stream;
pub(crate) mod subscribe;
pub(crate) mod subscription_registry;
