//! Leader election: of several replicas one holds the Lease, and only that one writes.

mod election;
mod leadership;

pub(crate) use self::election::Election;
pub use self::leadership::Leadership;
