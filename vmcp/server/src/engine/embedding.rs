//! Embedding: the configured provider, its health, and the background task that embeds tools.

pub mod configured;
pub(super) mod provider;
pub(super) mod worker;
