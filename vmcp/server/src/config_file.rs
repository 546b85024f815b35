//! The configuration file on disk: reading it with the files it refers to, and hot reload.

pub mod source;
pub mod watch;
