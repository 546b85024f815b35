//! Edits of the configuration file by commands: its comments stay, and its secrets go to `.env`.

use std::path::Path;

use vmcp_client_files::import::Imported;
use vmcp_config::edit::{self, EditError};

use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::config_file::env_file::{self, Addition};
use crate::config_file::secret_store::write_private;

/// Edits the file at `path`.
pub(in crate::cli) fn edit(
    path: &Path,
    change: impl FnOnce(&str) -> Result<String, EditError>,
) -> Result<(), CommandFailure> {
    edited(path, change)?.write(path)
}

/// Text of an edited file, which is not written yet; `None` if nothing changes.
struct EditedText(Option<String>);

impl EditedText {
    fn write(self, path: &Path) -> Result<(), CommandFailure> {
        let Some(edited) = self.0 else { return Ok(()) };
        // A link stays a link: the file behind it is replaced.
        let written = path.canonicalize().and_then(|target| write_private(&target, &edited));
        written.map_err(|error| CommandFailure::new(format!("{}: {error}", path.display())))
    }
}

fn edited(
    path: &Path,
    change: impl FnOnce(&str) -> Result<String, EditError>,
) -> Result<EditedText, CommandFailure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| CommandFailure::new(format!("{}: {error}", path.display())))?;
    let edited = change(&text).map_err(|error| {
        let exit = if matches!(error, EditError::NoBackend(_)) { Exit::NothingFound } else { Exit::Failed };
        CommandFailure::new(format!("{}: {error}", path.display())).exit(exit)
    })?;
    Ok(EditedText((edited != text).then_some(edited)))
}

/// Adds imported servers to the file at `path`, and their secrets to `.env` beside it. Both files are checked
/// first and the secrets are written first, so that each entry finds its secret.
pub(in crate::cli) fn append(path: &Path, imported: &Imported) -> Result<(), CommandFailure> {
    if imported.restricts_tools {
        notes::note("note: tool filters are not merged; write them into `aggregation.tools`");
    }
    let edited = edited(path, |text| edit::append(text, &imported.entries, &imported.backends))?;
    keep_secrets(path, imported)?;
    edited.write(path)
}

/// Writes the secrets of imported servers to `.env` beside `path`, readable by its owner only. A failure
/// comes before anything is written, and callers write the entries afterwards.
pub(in crate::cli) fn keep_secrets(path: &Path, imported: &Imported) -> Result<(), CommandFailure> {
    if imported.variables.is_empty() {
        return Ok(());
    }
    let env_file = path.with_file_name(env_file::NAME);
    let failed = |error: std::io::Error| {
        CommandFailure::new(format!("{}: {error}", env_file.display()))
            .remedy("no entry was written; mend that file, then run this again")
    };
    let addition = Addition::prepare(&env_file, &imported.variables).map_err(failed)?;
    addition.write().map_err(failed)?;
    // Only names are printed: secrets do not belong on a terminal.
    let names: Vec<_> = imported.variables.keys().map(String::as_str).collect();
    notes::note(&format!(
        "{} in {}, which only you can read (keep it out of version control): {}",
        notes::counted(names.len(), "secret"),
        env_file.display(),
        names.join(", ")
    ));
    if !addition.differ.is_empty() {
        notes::note(&format!(
            "note: {} had other values there already, which stay; check them",
            addition.differ.join(", ")
        ));
    }
    Ok(())
}
