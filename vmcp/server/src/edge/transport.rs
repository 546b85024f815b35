//! Transports: each turns bytes into a message and a `Peer`, and writes what the conversation yields.

pub(crate) mod http;
pub mod stdio;
mod trace;
