//! Texts about the configuration: the JSON schema, the reference page, the starter file, and the
//! configuration in force as YAML.

pub(crate) mod effective;
pub(crate) mod schema;
pub(crate) mod schema_table;
pub(crate) mod settings_page;
pub(crate) mod starter;
