//! JSON schemas of tools and of questions: as trees, and as forms for arguments and answers.

mod answer;
mod arguments;
mod choices;
mod effective;
mod form;
mod tree;

pub use answer::{check, defaults};
pub use arguments::{arguments, given};
pub use form::fields;
pub use tree::tree;
