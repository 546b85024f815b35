//! One request to one backend.

pub(super) mod input_rounds;
pub(super) mod request;
pub(super) mod task_calls;
pub(super) mod tool_call;
