//! Routing and the call seam: from the name or URI in a request to the backend, or the own tool, that answers
//! it.
//!
//! Read [`call`] first: the stack that every way to a backend goes through. [`router`] finds the target;
//! `tools`, `prompts`, `resources`, `completion`, `tasks`, `extensions` and `subscriptions` each serve one
//! kind of request; `own_tools` are find_tool and call_tool.

pub(crate) mod answer;
mod call;
pub(crate) mod caller;
mod completion;
pub mod extensions;
mod own_tools;
mod prompts;
mod resources;
mod router;
mod subject;
pub mod subscriptions;
pub mod tasks;
mod tools;

pub use answer::{Answer, ArrivingAnswer, Content};
pub use caller::{CallContext, Caller};
pub use completion::complete;
pub use own_tools::tools_by_model;
pub use prompts::get_prompt;
pub use resources::read_resource;
pub use tools::{ToolResult, Tools, call_tool};
pub use vmcp_engine::search::context::ContextKey;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
