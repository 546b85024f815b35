//! Server push: messages for clients that belong to none of their requests.

pub(super) mod downstream_router;
mod listen_filter;
mod mailbox;
pub(super) mod server_push;
mod session_registry;
pub(super) mod streams;
pub(super) mod subscriptions;
mod topics;
pub(super) mod upkeep;

pub use downstream_router::DownstreamRouter;
