//! From a name to whoever answers for it: the one seam for every way of reaching a tool (invariant 4).
//!
//! A direct call and a call through call_tool meet in [`backend::tool_call`]; what authorizes a call one day belongs
//! there, in front of the target that will really run.

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
