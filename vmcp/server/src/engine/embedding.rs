//! Embedding: the configured provider and its health.

pub mod configured;
pub(super) mod provider;
mod query_cache;
