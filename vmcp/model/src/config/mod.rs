//! Configuration: the YAML's shape and its validated form.

pub use crate::rules::Aggregation;
