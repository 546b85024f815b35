//! JSON schemas of tools and of questions: as trees, and as forms for arguments and answers.

mod answer;
mod arguments;
mod choices;
mod effective;
mod example;
mod form;
mod members;
mod tree;

pub use answer::{check, defaults, required_defaults};
pub use arguments::{arguments, given};
pub use form::{argument_fields, fields};
pub use tree::tree;
