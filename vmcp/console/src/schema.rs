//! JSON schemas of tools: as trees, and as forms for arguments.

mod arguments;
mod effective;
mod form;
mod tree;

pub use arguments::{ARGUMENT_PREFIX, arguments};
pub use form::fields;
pub use tree::tree;
