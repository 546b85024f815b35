//! Records of clients that outlive a snapshot: their tasks, the links they were given and the states they
//! used.

pub(in crate::engine) mod issued_tasks;
pub mod kept_results;
pub mod linked_uris;
pub mod used_states;
