//! Services around vmcp that are neither MCP servers nor clients.

mod identity_provider;
mod otlp;
mod redis;

pub use identity_provider::{IdentityProvider, browse};
pub use otlp::{Collector, Span};
pub use redis::Redis;
