//! Definitions, names, conflicts, the catalog and the validated configuration of a virtual MCP server; pure.

pub mod config;
pub mod definition;
pub mod rules;
