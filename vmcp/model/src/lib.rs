//! Definitions, names, conflicts, the catalog and the validated configuration of a virtual MCP server; pure.

pub mod brief;
pub mod config;
pub mod definition;
pub mod discovered;
mod edit;
pub mod hash;
pub mod param_header;
pub mod rules;
pub mod sanitize;
pub mod tokens;
