//! Catalogs of MCP servers in the form of the official registry (API v0.1, `server.json`). Pure: no I/O, no
//! clock.
//!
//! | module | holds |
//! |---|---|
//! | [`entry`] | `server.json`, read leniently, with a finding for each odd field |
//! | [`page`] | a page of the API, or a file of entries |
//! | [`catalog`] | entries by name and version, and search over them |
//! | [`plan`] | an entry and a person's values become a backend of `vmcp.yaml` |
//! | [`report`] | entries as JSON |
//! | [`identifiers`] | grammars of package names and versions, by type of registry |
//! | [`served`] | the answers of the API when vmcp itself is the registry |
//!
//! Entries are untrusted: anybody publishes them. [`plan`] builds a command from checked words, never from a
//! text that a shell would read, and writes no `$` that the configuration would expand.

pub mod catalog;
pub mod entry;
mod fields;
pub mod identifiers;
pub mod inputs;
pub mod page;
pub mod plan;
pub mod report;
pub mod served;
