//! Bounds of one script, and of the process that runs it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Bounds of a worker process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceBounds {
    /// Bytes that the process may allocate beyond its memory at the start.
    pub memory: u64,
    /// Seconds of processor time.
    pub cpu_seconds: u64,
}

/// Bounds of one script. Beyond a bound the script ends in an error that names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptLimits {
    /// Wall-clock time from the begin to the end, calls included.
    pub timeout: Duration,
    /// Calls of tools, searches and descriptions; one more ends the script.
    pub calls: usize,
    /// Calls that `parallel` makes at the same time; further ones wait.
    pub parallel: usize,
    /// Bytes that `print` may write.
    pub output_bytes: usize,
    /// Bytes of the result as JSON.
    pub result_bytes: usize,
    /// Bytes of the state of a script that waits for an answer, compressed.
    pub suspended_bytes: usize,
    /// Pictures; one more raises `ValueError`.
    pub pictures: usize,
    /// Bytes of one picture; a larger one raises `ValueError`.
    pub picture_bytes: usize,
    /// Bytes of all pictures; a picture beyond raises `ValueError`.
    pub pictures_bytes: usize,
    /// Depth of calls of Python functions; one more raises `RecursionError`.
    pub recursion: usize,
}

impl Default for ScriptLimits {
    fn default() -> ScriptLimits {
        ScriptLimits {
            timeout: Duration::from_secs(30),
            calls: 100,
            parallel: 10,
            output_bytes: 64 << 10,
            result_bytes: 256 << 10,
            // With base64 around it, within the bound of a sealed state (256 KiB).
            suspended_bytes: 160 << 10,
            pictures: 8,
            // Clients take images of a few megabytes.
            picture_bytes: 1 << 20,
            pictures_bytes: 4 << 20,
            recursion: 500,
        }
    }
}
