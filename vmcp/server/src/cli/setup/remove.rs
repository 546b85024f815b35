//! `vmcp remove`, `vmcp enable`, `vmcp disable`: change a backend of the configuration file. `remove` deletes
//! servers of a cluster too.

use std::path::Path;

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde::Serialize;
use vmcp_config::edit;

use super::config_edit;
use super::kubernetes::{self, ClusterArguments};
use super::left_secrets::{self, LeftSecrets};
use crate::cli::completions::candidates;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::options::GlobalOptions;

/// The backend to change.
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    /// Name of the backend
    #[arg(add = ArgValueCandidates::new(candidates::backends))]
    name: String,
    /// Format of the result: `file`, `backend`, `change` (removed, enabled or disabled), `secretsRemoved`,
    /// `secretsKept`; of a failure `error`, `remedy`, `exitCode`
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
}

/// Result for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Changed<'a> {
    /// Configuration file.
    file: String,
    backend: &'a str,
    change: Change,
    #[serde(flatten)]
    secrets: LeftSecrets,
}

/// The backend to remove, and from where.
#[derive(Debug, Args)]
pub(in crate::cli) struct RemoveArguments {
    #[command(flatten)]
    backend: Arguments,
    /// Remove its secrets from `.env` without a question, unless another backend of this file refers to them
    #[arg(long)]
    secrets: bool,
    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Change to a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(in crate::cli) enum Change {
    /// Deletes the entry, with the comments directly above it.
    #[serde(rename = "removed")]
    Remove,
    /// Takes `enabled: false` away.
    #[serde(rename = "enabled")]
    Enable,
    /// Writes `enabled: false`.
    #[serde(rename = "disabled")]
    Disable,
}

/// Runs `vmcp remove`.
pub(in crate::cli) fn remove(
    arguments: &RemoveArguments,
    global: &GlobalOptions,
) -> Result<Exit, CommandFailure> {
    let RemoveArguments { backend, secrets, cluster } = arguments;
    let format = backend.output;
    output::with_failure(format, || {
        if cluster.kubernetes {
            return kubernetes::remove(&backend.name, cluster, format, global);
        }
        let path = global.config_or_running()?;
        let before = config_edit::read_or_first_lines(&path)?;
        change_file(Change::Remove, backend, &path, global)?;
        let asks = format == OutputFormat::Table;
        let left = left_secrets::offer_removal(&path, &before, *secrets, asks)?;
        report(Change::Remove, backend, &path, left)
    })
}

/// Runs `vmcp enable` and `vmcp disable`.
pub(in crate::cli) fn run(
    change: Change,
    arguments: &Arguments,
    global: &GlobalOptions,
) -> Result<Exit, CommandFailure> {
    output::with_failure(arguments.output, || {
        let path = global.config_or_running()?;
        change_file(change, arguments, &path, global)?;
        report(change, arguments, &path, LeftSecrets::default())
    })
}

fn change_file(
    change: Change,
    arguments: &Arguments,
    path: &Path,
    global: &GlobalOptions,
) -> Result<(), CommandFailure> {
    let name = &arguments.name;
    match change {
        Change::Remove => config_edit::edit_checked(path, global, |text| edit::remove(text, name))?,
        Change::Enable => config_edit::edit(path, |text| edit::set_enabled(text, name, true))?,
        Change::Disable => config_edit::edit(path, |text| edit::set_enabled(text, name, false))?,
    }
    notes::note(&match change {
        Change::Remove => format!("removed {name} from {}", path.display()),
        Change::Enable => format!("enabled {name}; `vmcp backends` shows its state"),
        Change::Disable => format!("disabled {name}; its entry stays in {}", path.display()),
    });
    Ok(())
}

fn report(
    change: Change,
    arguments: &Arguments,
    path: &Path,
    secrets: LeftSecrets,
) -> Result<Exit, CommandFailure> {
    let file = path.display().to_string();
    let result = Changed { file, backend: &arguments.name, change, secrets };
    output::print_for_programs(arguments.output, &result)?;
    Ok(Exit::Done)
}
