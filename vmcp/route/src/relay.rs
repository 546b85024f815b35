//! Requests that are relayed to their backend as they came, one room for each kind.

pub(crate) mod completion;
pub mod extensions;
pub(crate) mod own_resources;
pub(crate) mod prompts;
pub(crate) mod resources;
pub mod subscriptions;
pub mod tasks;
