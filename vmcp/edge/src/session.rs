//! Clients and their sessions: the sender of a message, sealed session ids, sealed addresses of processes,
//! and questions that clients have not answered yet.

pub(super) mod client_instances;
pub(super) mod connection_id;
pub(super) mod keys;
pub(super) mod peer;
pub(super) mod pending_questions;
pub(super) mod sessions;
