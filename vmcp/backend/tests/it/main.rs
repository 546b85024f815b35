//! Backends against real servers: in-process HTTP servers that answer as told, and child processes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends at the first thing that is not as expected"
)]

mod addresses;
mod alike_clients;
mod bad_requests;
mod breaker;
mod calls;
mod changes;
mod codex;
mod connecting;
mod credentials;
mod discovery;
mod eras;
mod faults;
mod floods;
mod in_the_wild;
mod isolation;
mod package_runners;
mod plain_connections;
mod processes;
mod program_starts;
mod proxies;
mod questions;
mod sessions;
mod sse;
mod streaming;
mod subscriptions;
mod support;
mod websocket;
