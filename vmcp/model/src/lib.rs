//! Definitions, names, conflicts and the catalog of a virtual MCP server; pure, without I/O.
//!
//! The way of a definition: a backend's answers become a [`discovered::Listing`], which is read into
//! [`discovered::Discovered`]; all backends together, under the rules of [`vmcp_config::rules::Aggregation`],
//! become a [`catalog::Catalog`]. Findings on the way are [`issue::Issue`]s.

pub mod catalog;
pub mod definition;
pub mod definition_diff;
pub mod discovered;
mod edit;
pub mod fitness;
pub mod hash;
pub mod issue;
pub mod names;
pub mod param_header;
pub mod tokens;
pub mod topics;
