//! Edits of the configuration file by commands: its comments stay, and its secrets go to `.env`.

use std::path::Path;

use vmcp_client_files::import::Imported;
use vmcp_config::edit::{self, EditError};

use super::console::failure::{CommandFailure, Exit};
use super::console::notes;
use crate::config_file::env_file;
use crate::config_file::secret_store::write_private;

/// Edits the file at `path`.
pub(super) fn edit(
    path: &Path,
    change: impl FnOnce(&str) -> Result<String, EditError>,
) -> Result<(), CommandFailure> {
    let of_file = |error: std::io::Error| CommandFailure::new(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(of_file)?;
    let edited = change(&text).map_err(|error| {
        let exit = if matches!(error, EditError::NoBackend(_)) { Exit::NothingFound } else { Exit::Failed };
        CommandFailure::new(format!("{}: {error}", path.display())).exit(exit)
    })?;
    if edited != text {
        // A link stays a link: the file behind it is replaced.
        let target = path.canonicalize().map_err(of_file)?;
        write_private(&target, &edited).map_err(of_file)?;
    }
    Ok(())
}

/// Adds imported servers to the file at `path`.
pub(super) fn append(path: &Path, imported: &Imported) -> Result<(), CommandFailure> {
    if imported.restricts_tools {
        notes::note("note: tool filters are not merged; write them into `aggregation.tools`");
    }
    edit(path, |text| edit::append(text, &imported.entries, &imported.backends))
}

/// Writes the secrets of the imported file to `.env` beside `path`, readable by its owner only.
pub(super) fn keep_secrets(path: &Path, imported: &Imported) -> Result<(), CommandFailure> {
    if imported.variables.is_empty() {
        return Ok(());
    }
    let env_file = path.with_file_name(env_file::NAME);
    let differ = env_file::add(&env_file, &imported.variables)
        .map_err(|error| CommandFailure::new(format!("{}: {error}", env_file.display())))?;
    // Only names are printed: secrets do not belong on a terminal.
    let names: Vec<_> = imported.variables.keys().map(String::as_str).collect();
    notes::note(&format!(
        "{} in {}, which only you can read (keep it out of version control): {}",
        notes::counted(names.len(), "secret"),
        env_file.display(),
        names.join(", ")
    ));
    if !differ.is_empty() {
        notes::note(&format!(
            "note: {} had other values there already, which stay; check them",
            differ.join(", ")
        ));
    }
    Ok(())
}
