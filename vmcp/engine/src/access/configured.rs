//! The parts of access that a configuration asks for; parts that it leaves unchanged stay as they are.

pub(crate) mod decision_point;
pub(crate) mod policy;
pub(crate) mod rate_limits;
pub mod webhooks;
