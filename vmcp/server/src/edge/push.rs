//! Server push: messages for clients that belong to none of their requests.

mod listen_filter;
pub(super) mod listeners;
mod mailbox;
pub(super) mod renewal;
pub(super) mod server_push;
mod session_registry;
pub(super) mod streams;
pub(super) mod subscriptions;
mod topics;

pub use listeners::Listeners;
