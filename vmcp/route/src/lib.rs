//! Routing and the call seam: from the name or URI in a request to the backend, or the own tool, that answers
//! it.
//!
//! Read [`call`] first: the stack that every way to a backend goes through. [`router`] finds the target;
//! `tools` and each room of `relay` serve one kind of request; `own_tools` are find_tool and call_tool. A
//! composite tool is run inside the seam, in place of a request: each of its steps is a call again.

pub(crate) mod answer;
mod argument_check;
mod call;
pub(crate) mod caller;
mod own_tools;
mod relay;
mod router;
mod subject;
mod tools;

pub use answer::{Answer, ArrivingAnswer, Content, ScopeChallenge, StepUp};
pub use call::send::question_span;
pub use call::task_calls::task_names;
pub use call::{CONFIRMATION_PREFIX, question_source};
pub use caller::{CallContext, Caller, Consent};
pub use own_tools::{execute_hook, listed_servers, may_use, may_use_hooks, tools_by_model};
pub use relay::completion::complete;
pub use relay::prompts::get_prompt;
pub use relay::resources::read_resource;
pub use relay::{extensions, subscriptions, tasks};
pub use tools::{ToolResult, Tools, call_tool};
pub use vmcp_engine::context_key::ContextKey;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
