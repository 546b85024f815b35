//! Requests that are relayed to their backend as they came, one room for each kind.

pub(crate) mod completion;
pub mod extensions;
pub(crate) mod prompts;
pub mod question_source;
pub(crate) mod resources;
pub mod subscriptions;
pub mod task_names;
pub mod tasks;
