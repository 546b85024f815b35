//! [`DURATION`]: the pattern of durations in the definitions.

/// Pattern of a duration in a resource. A unit is required: CEL parses no others.
pub(crate) const DURATION: &str = r"^([0-9]+(\.[0-9]+)?(ms|us|µs|ns|h|m|s))+$";
