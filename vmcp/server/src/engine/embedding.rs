//! Embedding: the configured provider, how it is doing, and the task that embeds tools in the background.

pub mod configured;
pub(super) mod provider;
pub(super) mod worker;
