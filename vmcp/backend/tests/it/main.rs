//! Backends against real servers: in-process HTTP servers that answer as told, and child processes.

mod breaker;
mod calls;
mod changes;
mod connecting;
mod discovery;
mod eras;
mod processes;
mod sse;
mod support;
