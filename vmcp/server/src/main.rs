//! The `vmcp` binary.
fn main() {}
