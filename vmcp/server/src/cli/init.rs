//! `vmcp init`: writes a commented configuration file.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use vmcp_config::import;

use super::console::failure::{CommandFailure, Exit};
use super::console::{notes, output};
use super::options::{DEFAULT_FILE_NAME, GlobalOptions};

/// Write a commented configuration file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp init
  vmcp init --from .mcp.json                 # Claude, Cursor, Windsurf and VS Code have one
  vmcp init --from ~/.cursor/mcp.json -      # to standard output")]
pub(super) struct Arguments {
    /// Import the servers of another client's file; secrets in it become references to environment variables
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// File to write, - for standard output [default: as with --config, else vmcp.yaml]
    file: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { from, force, file } = arguments;
    let yaml = match from {
        None => vmcp_config::STARTER.to_owned(),
        Some(path) => imported(&path)?,
    };
    let path = file.or_else(|| global.config.clone()).unwrap_or_else(|| PathBuf::from(DEFAULT_FILE_NAME));
    if path == Path::new("-") {
        output::result(&yaml)?;
        return Ok(Exit::Done);
    }
    write(&path, &yaml, force)?;
    notes::note(&format!("wrote {}; edit it, then `vmcp validate` and `vmcp serve`", path.display()));
    Ok(Exit::Done)
}

fn imported(path: &Path) -> Result<String, CommandFailure> {
    let of_file = |reason: String| CommandFailure::new(format!("{}: {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| of_file(error.to_string()))?;
    let imported =
        import::import(&text, &path.display().to_string()).map_err(|error| of_file(error.to_string()))?;
    let import::Imported { yaml, backends, notes, variables } = imported;
    notes::note(&format!("imported {} servers: {}", backends.len(), backends.join(", ")));
    for note in notes {
        notes::note(&format!("note: {note}"));
    }
    if !variables.is_empty() {
        // Only the names are printed: secrets do not belong on a terminal.
        let names: Vec<_> = variables.keys().map(String::as_str).collect();
        notes::note(&format!(
            "secrets were left out; before `vmcp serve`, set {} as {} has them",
            names.join(", "),
            path.display()
        ));
    }
    Ok(yaml)
}

fn write(path: &Path, text: &str, force: bool) -> Result<(), CommandFailure> {
    let mut options = OpenOptions::new();
    options.write(true).truncate(true);
    // One system call creates the file or fails, so that a file that appears in between is not overwritten.
    let opened = if force { options.create(true).open(path) } else { options.create_new(true).open(path) };
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => CommandFailure::new(format!("{} exists already", path.display()))
            .remedy("--force replaces it; or name another file; or write to standard output with -"),
        _ => CommandFailure::new(format!("{}: {error}", path.display())),
    })
}
