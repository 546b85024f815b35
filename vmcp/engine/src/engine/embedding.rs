//! Embedding: the configured provider and its health; and other services that help to rank tools.

pub mod configured;
pub(in crate::engine) mod health;
pub(in crate::engine) mod known_model;
pub(super) mod provider;
mod query_cache;
pub mod ranking_services;
