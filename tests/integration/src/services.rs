//! Services around vmcp that are neither MCP servers nor clients, and its packages.

mod identity_provider;
mod model_stub;
mod otel_collector;
mod otlp;
mod packages;
mod prometheus;
mod redis;

pub use identity_provider::{IdentityProvider, browse};
pub use model_stub::{MODEL_KEY, ModelAnswer, ModelStub, codex_program};
pub use otel_collector::{CollectorProgram, OtelCollector};
pub use otlp::{Collector, Span};
pub use packages::{Packages, npm_manifest, own_platform, package, stand_ins};
pub use prometheus::{Prometheus, PrometheusPrograms};
pub use redis::Redis;
