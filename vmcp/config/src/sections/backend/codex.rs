//! `backends[].codex`: Codex's app server as a backend (`transport: codex`).

use std::path::{Component, Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RawBackend, RawTransport};
use crate::problems::{self, Report};

/// Program of a backend with `transport: codex` that names none.
pub(crate) const DEFAULT_COMMAND: [&str; 2] = ["codex", "app-server"];
/// Most workspaces of one backend; more are a mistake.
const MAX_WORKSPACES: usize = 64;

/// Validated settings of Codex.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Codex {
    /// True if a call may ask for the sandbox `dangerFullAccess`.
    pub allow_dangerous: bool,
    /// Absolute paths of directories in which turns may work, besides the backend's `cwd`.
    pub workspaces: Vec<PathBuf>,
}

/// Settings of a backend with `transport: codex`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Codex")]
pub struct RawCodex {
    /// Let calls ask for the sandbox `dangerFullAccess`, in which commands have all rights of the program.
    pub allow_dangerous: bool,
    /// Absolute paths of directories in which turns may work, besides the backend's `cwd`, at most 64. The
    /// default is `cwd`, without it the first one here; without any, turns are refused. A call that names a
    /// directory outside of them is refused. They bound the directory of a turn and its writes, not its
    /// reads: `readOnly` reads every file that vmcp's user may read.
    pub workspaces: Vec<String>,
}

/// Validates the settings; `None` for a backend of another transport, which must have none.
pub(super) fn validate(raw: &RawBackend, path: &str, report: &mut Report) -> Option<Codex> {
    let at = problems::key(path, "codex");
    if raw.transport != Some(RawTransport::Codex) {
        if raw.codex.is_some() {
            let remedy = "add `transport: codex`, or remove it";
            report.problem(&at, "only a backend with `transport: codex` has this", remedy);
        }
        return None;
    }
    let settings = raw.codex.clone().unwrap_or_default();
    let at_workspaces = problems::key(&at, "workspaces");
    if settings.workspaces.len() > MAX_WORKSPACES {
        let message = format!("{} directories", settings.workspaces.len());
        report.problem(&at_workspaces, message, format!("keep to at most {MAX_WORKSPACES}"));
    }
    let workspaces: Vec<_> = settings.workspaces.iter().map(PathBuf::from).collect();
    for (index, workspace) in workspaces.iter().enumerate().filter(|(_, path)| !path.is_absolute()) {
        let message = format!("{} is not an absolute path", workspace.display());
        let remedy = "write the whole path, beginning at `/`";
        report.problem(&problems::item(&at_workspaces, index), message, remedy);
    }
    for (index, _) in workspaces.iter().enumerate().filter(|(_, path)| is_root(path)) {
        refuse_root(&problems::item(&at_workspaces, index), report);
    }
    if raw.cwd.as_ref().is_some_and(|cwd| is_root(Path::new(cwd))) {
        refuse_root(&problems::key(path, "cwd"), report);
    }
    Some(Codex { allow_dangerous: settings.allow_dangerous, workspaces })
}

/// True for the root of the file system, in any spelling without the name of a directory.
fn is_root(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| matches!(part, Component::Normal(_)))
}

fn refuse_root(at: &str, report: &mut Report) {
    report.problem(at, "turns of Codex could work in every directory", "name a directory below `/`");
}
