//! The command line of vmcp, and its configuration file. Arrows point from a crate to the crates that it
//! imports:
//!
//! ```text
//! vmcp (cli ──► config_file) ──► vmcp-edge (MCP over HTTP and stdio) ──► vmcp-route ──► vmcp-engine
//!                                                                            │              │
//!                                      backends, at one seam for every call ◄┘              └─► Snapshot,
//!                                                                             immutable and swapped whole
//! ```

// The futures of a request nest through more types than the default of 128.
#![recursion_limit = "256"]

pub mod cli;
pub mod config_file;
