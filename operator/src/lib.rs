//! The operator: turns VirtualMCPServer and its companions into running pods.

pub mod runtime;
pub mod workload;
