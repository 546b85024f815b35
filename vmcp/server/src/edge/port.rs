//! The two listening ports: accepting, limiting and draining connections.

pub mod admin;
mod connections;
pub mod serve;
mod socket;
