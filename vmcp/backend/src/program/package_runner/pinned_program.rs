//! [`PinnedProgram`]: the program that a package runner has installed.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// The program behind a package runner: later starts run it, in place of the runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PinnedProgram {
    /// Name of the package.
    pub package: String,
    /// Version of the package.
    pub version: String,
    /// Path of the program.
    pub program: String,
    /// Number of arguments of the runner in front of the program's own.
    pub skipped: usize,
}

impl PinnedProgram {
    /// Returns the folder of the program, which a runner puts in front of `PATH`.
    pub(crate) fn bin(&self) -> Option<&Path> {
        Path::new(&self.program).parent()
    }
}
