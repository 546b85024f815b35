//! The virtual MCP server and its command line.
//!
//! ```text
//! edge (MCP over HTTP and stdio) ──► route ──► optim handlers ──► one search index
//!                                      └─────► backend
//! engine: backends, catalog, embeddings ──► Snapshot, swapped whole
//! ```

pub mod cli;
pub mod config_source;
pub mod config_watch;
pub mod edge;
pub mod engine;
pub mod identity;
pub mod optim;
pub mod route;
mod schema;
mod search;
pub mod telemetry;

#[cfg(test)]
mod testing;
