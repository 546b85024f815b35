//! Composite tools.
pub mod definition;
mod duration;
mod mistakes;
pub mod raw;
pub mod run;
mod template;

pub use definition::CompositeTool;
pub use mistakes::Mistake;
