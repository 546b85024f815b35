//! What is known of a client and its session.

pub(super) mod keys;
pub(super) mod peer;
pub(super) mod pending_questions;
pub(super) mod random;
pub(super) mod sessions;
