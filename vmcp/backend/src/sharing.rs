//! State that all calls to a backend share: its connection, the pool of upstream sessions, the registry of
//! subscriptions.

pub(crate) mod core;
pub(crate) mod lease;
pub(crate) mod opening;
pub(crate) mod placement;
mod reaper;
pub(crate) mod session;
pub(crate) mod session_listings;
pub(crate) mod session_pool;
pub(crate) mod session_stream;
pub(crate) mod session_subscriptions;
mod sole_program;
pub(crate) mod subscription_registry;
pub(crate) mod warm_processes;
