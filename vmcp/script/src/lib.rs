//! Code mode, the server's side: a script in Python calls many tools, and only its result reaches the model.
//! The interpreter is in `vmcp-script-worker`, which runs in processes of its own.
//!
//! | module | content |
//! |---|---|
//! | [`jobs`] | scripts in Kubernetes Jobs, in place of worker processes: the seam alone |
//! | [`pool`] | worker processes: some warm, one script each, killed at the deadline |
//! | [`protocol`] | frames between the server and a worker: length-prefixed JSON, bounded |
//! | [`limits`] | bounds of a script, and of its process |
//! | [`stubs`] | typed Python stubs of tools, from their JSON schemas; pure |
//! | [`picture`] | pictures of a script |
//! | [`shapes`] | observed types and keys of results, without their values; pure |
//! | [`names`] | Python names of servers and tools |
//!
//! A script reaches tools through [`pool::ToolHost`] alone: its calls leave the worker as frames, and the
//! server makes each under the caller's identity.

pub mod jobs;
pub mod limits;
pub mod names;
pub mod picture;
pub mod pool;
pub mod protocol;
pub mod shapes;
pub mod stubs;

pub use limits::{ResourceBounds, ScriptLimits};
