//! Requests to a single backend: sending, rounds of input, the one seam of tool calls, and calls that become
//! tasks.

pub(super) mod input_rounds;
pub(super) mod request;
pub(super) mod task_calls;
pub(super) mod tool_call;
