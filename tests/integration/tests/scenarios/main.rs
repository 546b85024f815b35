//! Scenarios over the built binary, one module a theme.
#![cfg(test)]

fn main() {}
