//! Texts about the configuration: the JSON schema, the reference page, the starter file; and edits of a
//! file's own text.

pub(crate) mod backend_entry;
pub(crate) mod checked_schema;
pub mod edit;
pub(crate) mod schema;
pub(crate) mod schema_table;
pub(crate) mod settings_page;
pub(crate) mod starter;
