//! The engine: keeps one immutable snapshot of every backend's definitions, and searches it. Arrows point
//! from a room to the rooms that it imports:
//!
//! ```text
//! engine ──► optim (what lists show of own tools), schema
//!    │
//!    ├─────► search (find_tool's ranking, contexts, rerankers)
//!    │          │
//!    └─────► telemetry (call records, audit) ──► access (principals, policies, credentials) ──► metrics
//!
//! folders: places of files on this machine; random: randomness and the clock; runs: runs of composite tools
//! server_registrar: where changes of servers are written
//! ```

pub mod access;
pub mod engine;
pub mod folders;
pub mod metrics;
pub mod optim;
pub mod random;
pub mod runs;
pub mod schema;
pub mod search;
pub mod server_registrar;
pub mod telemetry;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use access::context_key;
