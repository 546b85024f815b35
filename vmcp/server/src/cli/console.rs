//! Standard output, standard error and the exit code: everything that a command shows.

pub(super) mod brief;
pub(super) mod failure;
pub(super) mod notes;
pub(super) mod output;
pub(super) mod paint;
pub(super) mod progress;
pub(super) mod prompt;
pub(super) mod tool_result;
mod wrap;
