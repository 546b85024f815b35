//! Lines that a server writes for its operator: log messages of the protocol and standard error, each within
//! bounds.

pub(crate) mod log_allowance;
pub(crate) mod log_fold;
pub(crate) mod operator_log;
