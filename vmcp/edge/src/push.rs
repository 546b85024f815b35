//! Server push: messages for clients that belong to none of their requests.
//!
//! ```text
//! backend ─ Event ─► DownstreamRouter ─► SessionRegistry   messages of one session
//!                           │        └─► TopicRegistry     updates of a resource or a task
//!                           ▼
//!                        Mailbox   one a session or `subscriptions/listen`; a bounded queue
//!                           ▼
//!                      PushStream   GET stream, `subscriptions/listen` or stdio: takes the queue out
//! ```
//!
//! `subscriptions` and `listen_filter` enter subscriptions into the registry, `upkeep` renews them after a
//! reload and removes expired sessions, `own_updates` tells of changes of vmcp's own resources.

pub(super) mod context_changes;
pub(super) mod downstream_router;
mod listen_filter;
mod mailbox;
pub(super) mod own_updates;
pub(super) mod server_push;
mod session_registry;
pub(super) mod streams;
pub(super) mod subscriptions;
mod topics;
pub(super) mod upkeep;

pub use downstream_router::DownstreamRouter;
