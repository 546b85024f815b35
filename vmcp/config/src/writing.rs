//! Texts that vmcp writes about its configuration: the JSON schema, the reference page, the starter file and the
//! configuration in force.

pub(crate) mod effective;
pub(crate) mod schema;
pub(crate) mod schema_table;
pub(crate) mod settings_page;
pub(crate) mod starter;
