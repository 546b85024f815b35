//! The virtual MCP server and its command line. Arrows point from a room to the rooms that it imports:
//!
//! ```text
//! cli ──► edge (MCP over HTTP and stdio) ──► route ──► engine ──► optim (own tools' signatures)
//!                                              │          ├─────► search, schema
//!                                              │          └─────► telemetry ──► access
//!                                              └─────► backends, at one seam for every call
//!
//! engine: backends, catalog, embeddings ──► Snapshot, immutable and swapped whole
//! ```

pub mod access;
pub mod cli;
pub mod config_file;
pub mod edge;
pub mod engine;
pub mod optim;
pub mod route;
mod schema;
mod search;
pub mod telemetry;

#[cfg(test)]
mod testing;
