//! Arguments of own tools, as models write them: aliases of fields, numbers as text, JSON inside a string. A
//! reader returns checked values, or an error that names the field.

pub(super) mod call_arguments;
pub(super) mod dialect;
pub(super) mod find_arguments;
pub(crate) mod framework_keys;
pub(super) mod input;
pub(super) mod own_arguments;
