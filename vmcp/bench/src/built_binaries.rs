//! Binaries that the benchmark starts: from cargo's target folder, or from variables of the environment.

use std::env;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use tokio::process::{Child, Command};

/// Starts a process with only the standard streams that `command` asks for; killed when dropped.
pub(crate) fn spawn(command: &mut Command) -> Result<Child> {
    let child = command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn();
    child.with_context(|| format!("starting {}", command.as_std().get_program().display()))
}

/// Returns `VMCP_BIN`, else the `vmcp` beside this program.
pub(crate) fn vmcp_binary() -> Result<PathBuf> {
    built_binary("VMCP_BIN", "vmcp")
}

/// Returns `VMCP_FIXTURE_BIN`, else the `vmcp-fixture` beside this program.
pub(crate) fn fixture_binary() -> Result<PathBuf> {
    built_binary("VMCP_FIXTURE_BIN", "vmcp-fixture")
}

/// Returns the `vmcp-counted` beside this program.
pub(crate) fn counted_binary() -> Result<PathBuf> {
    built_binary("VMCP_COUNTED_BIN", "vmcp-counted")
}

/// Returns the path in `variable`, else the binary that cargo built into this program's folder.
fn built_binary(variable: &str, binary: &str) -> Result<PathBuf> {
    let path = match env::var_os(variable) {
        Some(path) => path.into(),
        None => env::current_exe()?.with_file_name(binary),
    };
    let packages = "-p vmcp -p vmcp-fixture -p vmcp-bench";
    ensure!(path.exists(), "{} is missing: run cargo build --release {packages}", path.display());
    Ok(path)
}
