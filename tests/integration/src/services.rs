//! Services around vmcp that are neither MCP servers nor clients.

mod identity_provider;
mod otlp;
mod prometheus;
mod redis;

pub use identity_provider::{IdentityProvider, browse};
pub use otlp::{Collector, Span};
pub use prometheus::{Prometheus, PrometheusPrograms};
pub use redis::Redis;
