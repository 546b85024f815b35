//! `vmcp remove`, `vmcp enable`, `vmcp disable`: change a backend of the configuration file. `remove` deletes
//! servers of a cluster too.

use clap::Args;
use clap_complete::ArgValueCandidates;
use vmcp_config::edit;

use super::config_edit;
use super::kubernetes::{self, ClusterArguments};
use super::left_secrets;
use crate::cli::completions::candidates;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::options::GlobalOptions;

/// The backend to change.
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    /// Name of the backend
    #[arg(add = ArgValueCandidates::new(candidates::backends))]
    name: String,
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
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) enum Change {
    /// Deletes the entry, with the comments directly above it.
    Remove,
    /// Takes `enabled: false` away.
    Enable,
    /// Writes `enabled: false`.
    Disable,
}

/// Runs `vmcp remove`.
pub(in crate::cli) fn remove(
    arguments: &RemoveArguments,
    global: &GlobalOptions,
) -> Result<Exit, CommandFailure> {
    let RemoveArguments { backend, secrets, cluster } = arguments;
    if cluster.kubernetes {
        return kubernetes::remove(&backend.name, cluster, global);
    }
    let path = global.config_or_running()?;
    let before = config_edit::read_or_first_lines(&path)?;
    let exit = run(Change::Remove, backend, global)?;
    left_secrets::offer_removal(&path, &before, *secrets)?;
    Ok(exit)
}

/// Runs the command.
pub(in crate::cli) fn run(
    change: Change,
    arguments: &Arguments,
    global: &GlobalOptions,
) -> Result<Exit, CommandFailure> {
    let name = &arguments.name;
    let path = global.config_or_running()?;
    config_edit::edit(&path, |text| match change {
        Change::Remove => edit::remove(text, name),
        Change::Enable => edit::set_enabled(text, name, true),
        Change::Disable => edit::set_enabled(text, name, false),
    })?;
    notes::note(&match change {
        Change::Remove => format!("removed {name} from {}", path.display()),
        Change::Enable => format!("enabled {name}; `vmcp backends` shows its state"),
        Change::Disable => format!("disabled {name}; its entry stays in {}", path.display()),
    });
    Ok(Exit::Done)
}
