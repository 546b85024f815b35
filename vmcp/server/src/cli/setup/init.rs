//! `vmcp init`: writes a commented configuration file.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use vmcp_client_files::import::{self, Imported};

use super::config_edit;
use crate::cli::clients::known_clients;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::{notes, output};
use crate::cli::options::{DEFAULT_FILE_NAME, GlobalOptions};
use crate::config_file::secret_store::private;

/// Write a commented configuration file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp init
  vmcp init --from claude                    # or cursor, vscode, codex, gemini, zed, opencode, goose, …
  vmcp init --from .mcp.json
  vmcp init --preset gobby
  vmcp init --from ~/.cursor/mcp.json -      # to standard output")]
pub(in crate::cli) struct Arguments {
    /// Import the servers of another client, by its name or by a file of it; secrets become references to
    /// variables, which are written to `.env` beside the new file
    #[arg(long, value_name = "CLIENT|FILE")]
    from: Option<String>,
    /// Add the imported servers to an existing file, whose comments stay
    #[arg(long, requires = "from", conflicts_with = "force")]
    merge: bool,
    /// Ports, tools and time limits of another product in place of vmcp's own
    #[arg(long, value_name = "PRESET", conflicts_with = "from")]
    preset: Option<Preset>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// File to write, - for standard output [default: as with --config, else vmcp.yaml]
    file: Option<PathBuf>,
}

/// A product whose defaults a new file takes over.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Preset {
    /// Ports 8765 and 8766, its tools and time limits.
    Gobby,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { from, merge, preset, force, file } = arguments;
    let imported = from.as_deref().map(imported).transpose()?;
    let fresh = match preset {
        Some(Preset::Gobby) => vmcp_config::PRESET_GOBBY,
        None => vmcp_config::STARTER,
    };
    let yaml = imported.as_ref().map_or(fresh, |imported| &imported.yaml);
    let path = file.or_else(|| global.config.clone()).unwrap_or_else(|| PathBuf::from(DEFAULT_FILE_NAME));
    if path == Path::new("-") {
        output::result(yaml)?;
        return Ok(Exit::Done);
    }
    if let Some(imported) = imported.as_ref().filter(|_| merge && path.exists()) {
        config_edit::append(&path, imported)?;
    } else {
        if !force && path.exists() {
            return Err(exists_already(&path));
        }
        if let Some(imported) = &imported {
            config_edit::keep_secrets(&path, imported)?;
        }
        write(&path, yaml, force)?;
    }
    notes::note(&format!("wrote {}; edit it, then `vmcp validate` and `vmcp serve`", path.display()));
    Ok(Exit::Done)
}

fn imported(from: &str) -> Result<Imported, CommandFailure> {
    let paths = known_clients::files(from)?;
    let mut files = Vec::new();
    for path in &paths {
        let text = std::fs::read_to_string(path)
            .map_err(|error| CommandFailure::new(format!("{}: {error}", path.display())))?;
        files.push((path.display().to_string(), text));
    }
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let names = || files.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let imported =
        import::import_files(&files).map_err(|error| CommandFailure::new(format!("{}: {error}", names())))?;
    let Imported { backends, notes, asked, .. } = &imported;
    let count = notes::counted(backends.len(), "server");
    notes::note(&format!("imported {count} of {}: {}", names(), backends.join(", ")));
    for note in notes {
        notes::note(&format!("note: {note}"));
    }
    if !asked.is_empty() {
        let asked: Vec<_> = asked.iter().map(String::as_str).collect();
        notes::note(&format!(
            "the other client asks for {}: set them, or write them to .env",
            asked.join(", ")
        ));
    }
    Ok(imported)
}

fn write(path: &Path, text: &str, force: bool) -> Result<(), CommandFailure> {
    let mut options = OpenOptions::new();
    // Readable by its owner only: people write tokens into it in spite of all advice.
    private(options.write(true).truncate(true));
    // One system call creates the file or fails, so that a file that appears in between is not overwritten.
    let opened = if force { options.create(true).open(path) } else { options.create_new(true).open(path) };
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists_already(path),
        _ => CommandFailure::new(format!("{}: {error}", path.display())),
    })
}

fn exists_already(path: &Path) -> CommandFailure {
    CommandFailure::new(format!("{} exists already", path.display()))
        .remedy("--force replaces it; or name another file; or write to standard output with -")
}
