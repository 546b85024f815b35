//! Records of clients that outlive a snapshot: their tasks and the links they were given.

pub(in crate::engine) mod issued_tasks;
pub mod kept_results;
pub mod linked_uris;
