//! Routing: from the name or URI in a request to the backend, or the own tool, that answers it.
//!
//! A direct call and a call through call_tool meet in [`backend::tool_call`], the one seam of every tool
//! call. Authorization and audit of a call belong there, in front of the tool that really runs.

pub(crate) mod answer;
pub(crate) mod backend;
pub(crate) mod caller;
mod completion;
pub mod extensions;
mod own_tools;
mod prompts;
mod resources;
mod subject;
pub mod tasks;
mod tools;

pub use answer::Answer;
pub use caller::Caller;
pub use completion::complete;
pub use prompts::get_prompt;
pub use resources::read_resource;
pub use tools::call_tool;
