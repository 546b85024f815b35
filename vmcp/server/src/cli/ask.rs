//! Commands that ask a server, or an engine in this process: its tools, backends and policies.

pub(super) mod authz;
pub(super) mod backends;
pub(super) mod call;
pub(super) mod eval;
pub(super) mod explain_tool;
pub(super) mod find;
pub(super) mod tools;
