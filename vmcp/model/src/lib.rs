//! Definitions, names, conflicts, the catalog and the validated configuration of a virtual MCP server; pure.
//!
//! The way of a definition: a backend's answers become a [`discovered::Listing`], which is read into
//! [`discovered::Discovered`]; all backends together, under the rules of [`rules::Aggregation`], become a
//! [`catalog::Catalog`], and two catalogs a [`diff::CatalogDiff`].

pub mod brief;
pub mod catalog;
pub mod config;
pub mod definition;
pub mod diff;
pub mod discovered;
mod edit;
pub mod hash;
pub mod issue;
pub mod names;
mod overrides;
pub mod param_header;
mod resolve;
pub mod rules;
pub mod sanitize;
pub mod status;
pub mod tokens;
mod uri_template;
