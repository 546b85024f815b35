//! Fields that several kinds share: their types, schemas and CEL rules.

pub(crate) mod auth_server;
pub(crate) mod cel_rules;
pub(crate) mod composite_tool;
pub(crate) mod duration;
pub(crate) mod headers;
pub mod pending;
pub mod references;
pub mod resource_overrides;
pub mod workload;
pub(crate) mod yaml_block;
