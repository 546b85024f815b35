//! Code mode, the side of the worker: a process that confines itself and runs one script. The server links
//! this crate for the hidden command `exec-worker` alone; everything else of code mode is in `vmcp-script`.
//!
//! | module | content |
//! |---|---|
//! | [`worker`] | the process: confined first, then one script |
//! | [`engine`] | the interpreter behind one trait; a call of a tool pauses the script |

pub mod engine;
pub mod worker;
