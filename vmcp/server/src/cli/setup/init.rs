//! `vmcp init`: writes a commented configuration file.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use serde::Serialize;
use vmcp_client_files::import::{self, ClientText, ImportError, Imported, NameConflict, Surroundings};
use vmcp_client_files::known_clients::names;
use vmcp_config::edit;

use super::config_edit::{self, OnMistake};
use super::known_variables::KnownVariables;
use super::kubernetes::client_file::{self, ManifestArguments};
use crate::cli::clients::known_clients;
use crate::cli::completions::candidates;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::console::{notes, prompt};
use crate::cli::operate::doctor::needed_programs;
use crate::cli::options::{DEFAULT_FILE_NAME, GlobalOptions};
use crate::config_file::edit_lock::EditLock;
use crate::config_file::env_file;
use crate::config_file::secret_store::private;
use vmcp_engine::folders;

/// File of manifests whose name is not given.
const MANIFESTS_FILE_NAME: &str = "servers.yaml";

/// Write a commented configuration file
///
/// For programs (-o json) the result has `file`, `written` (false if the file stays as it was), `imported`,
/// `replaced`, `skipped`, `secrets` (variables in `.env`), `asked` (variables that you set), `notes` and,
/// for standard output, `yaml`. A failure has `error`, `remedy` and `exitCode`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp init
  vmcp init --from claude                    # or cursor, vscode, codex, gemini, cline, roo, …
  vmcp init --from .mcp.json
  vmcp init --from cursor --merge            # into the file that is there
  vmcp init --preset gobby
  vmcp init --from ~/.cursor/mcp.json -      # to standard output
  vmcp init --from .mcp.json --kubernetes --namespace tools servers.yaml")]
pub(in crate::cli) struct Arguments {
    /// Import the servers of another client, by its name or by a file of it; secrets become references to
    /// variables, which are written to `.env` beside the new file
    #[arg(long, value_name = "CLIENT|FILE", add = ArgValueCandidates::new(candidates::clients))]
    from: Option<String>,
    /// Add the imported servers to an existing file, whose comments stay
    #[arg(long, requires = "from", conflicts_with = "force")]
    merge: bool,
    /// With --merge: treatment of servers whose name the file has already [default: a question at the
    /// terminal, else skip]
    #[arg(long, value_name = "WHAT", requires = "merge")]
    on_conflict: Option<OnConflict>,
    /// Ports, tools and time limits of another product in place of vmcp's own
    #[arg(long, value_name = "PRESET", conflicts_with = "from")]
    preset: Option<Preset>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// File to write, - for standard output [default: as with --config, else vmcp.yaml; with --kubernetes
    /// servers.yaml]
    file: Option<PathBuf>,
    #[command(flatten)]
    manifests: ManifestArguments,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
}

/// Result for programs.
#[derive(Debug, Default, Serialize)]
struct InitResult {
    /// File; `-` for standard output.
    file: String,
    /// False if the file stays as it was.
    written: bool,
    /// Names of the servers that were taken over, as backends.
    imported: Vec<String>,
    /// Names of backends in whose place servers were put.
    replaced: Vec<String>,
    /// Names of servers that were left out, because backends have them.
    skipped: Vec<String>,
    /// Variables of `.env` that hold the secrets.
    secrets: Vec<String>,
    /// Variables that the other client asks a person for.
    asked: Vec<String>,
    notes: Vec<String>,
    /// The configuration, for standard output.
    #[serde(skip_serializing_if = "Option::is_none")]
    yaml: Option<String>,
}

impl InitResult {
    fn new(path: &Path, imported: Option<&Imported>) -> InitResult {
        let file = path.display().to_string();
        let Some(imported) = imported else {
            return InitResult { file, written: true, ..InitResult::default() };
        };
        InitResult {
            file,
            written: !imported.backends.is_empty(),
            imported: imported.backends.clone(),
            replaced: imported.replaced.clone(),
            skipped: imported.skipped.clone(),
            secrets: imported.variables.keys().cloned().collect(),
            asked: imported.asked.iter().cloned().collect(),
            notes: imported.notes.clone(),
            yaml: None,
        }
    }
}

/// A product whose defaults a new file takes over.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Preset {
    /// Ports 8765 and 8766, its tools and time limits.
    Gobby,
}

/// Treatment of a server whose name a backend has already.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum OnConflict {
    /// Leave the server out.
    Skip,
    /// Give the server a name with a number.
    Rename,
    /// Put the server in the place of the backend.
    Replace,
}

impl From<OnConflict> for NameConflict {
    fn from(chosen: OnConflict) -> NameConflict {
        match chosen {
            OnConflict::Skip => NameConflict::Skip,
            OnConflict::Rename => NameConflict::Rename,
            OnConflict::Replace => NameConflict::Replace,
        }
    }
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let format = arguments.output;
    output::with_failure(format, || init(arguments, global))
}

fn init(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { from, merge, on_conflict, preset, force, file, manifests, output: format } = arguments;
    if let Some(from) = from.as_deref().filter(|_| manifests.kubernetes) {
        let path = file.unwrap_or_else(|| PathBuf::from(MANIFESTS_FILE_NAME));
        return write_manifests(from, &path, force, &manifests, format);
    }
    let path = file.or_else(|| global.config.clone()).unwrap_or_else(|| PathBuf::from(DEFAULT_FILE_NAME));
    let merged = merge && path.exists();
    // Names and variables are chosen by the files as they are now.
    let _lock = merged.then(|| EditLock::wait(&path));
    let before = if merged { config_edit::read_or_first_lines(&path)? } else { String::new() };
    let imported = match &from {
        Some(from) => Some(imported(from, &path, &before, on_conflict, format == OutputFormat::Table)?),
        None => None,
    };
    let fresh = match preset {
        Some(Preset::Gobby) => vmcp_config::PRESET_GOBBY,
        None => vmcp_config::STARTER,
    };
    let yaml = imported.as_ref().map_or(fresh, |imported| &imported.yaml);
    let names = imported.as_ref().map(|imported| &*imported.backends);
    let mut result = InitResult::new(&path, imported.as_ref());
    if path == Path::new("-") {
        result.yaml = Some(yaml.to_owned());
        // No `.env` is written: a person sets these variables, too.
        result.asked.append(&mut result.secrets);
        print_yaml(format, yaml, &result)?;
        if let Ok(loaded) = vmcp_config::load(yaml, "-", &|_: &str| None) {
            needed_programs::note_missing(&loaded.config, names);
        }
        return Ok(Exit::Done);
    }
    if let Some(imported) = imported.as_ref().filter(|_| merged) {
        if imported.backends.is_empty() {
            notes::note(&format!("{} stays as it is", path.display()));
            output::print_for_programs(format, &result)?;
            return Ok(Exit::Done);
        }
        result.notes.extend(config_edit::append(&path, imported, OnMistake::Note, global)?);
    } else {
        if !force && path.exists() {
            return Err(exists_already(&path));
        }
        if let Some(imported) = &imported {
            config_edit::keep_secrets(&path, imported)?;
        }
        write(&path, yaml, force)?;
        result.written = true;
    }
    notes::note(&format!("wrote {}; edit it, then `vmcp validate` and `vmcp serve`", path.display()));
    // Mistakes are told by `vmcp validate`.
    if let Ok(file) = global.load_file(&path) {
        needed_programs::note_missing(&file.config, names);
    }
    output::print_for_programs(format, &result)?;
    Ok(Exit::Done)
}

/// Writes the YAML as it is, or as a part of the result for programs.
fn print_yaml(format: OutputFormat, yaml: &str, result: &InitResult) -> Result<(), CommandFailure> {
    match format {
        OutputFormat::Table => output::result(yaml),
        OutputFormat::Json | OutputFormat::Yaml => output::print_for_programs(format, result),
    }
}

/// Writes the servers that `from` means as manifests.
fn write_manifests(
    from: &str,
    path: &Path,
    force: bool,
    wanted: &ManifestArguments,
    format: OutputFormat,
) -> Result<Exit, CommandFailure> {
    let imported = imported(from, path, "", None, false)?;
    let made = client_file::manifests(&imported, wanted, &|name| std::env::var(name).ok())?;
    for reason in &made.left_out {
        notes::note(&format!("note: {reason}"));
    }
    if imported.restricts_tools {
        notes::note("note: the other client's lists of tools are left out: name an MCPToolConfig");
    }
    let mut result = InitResult::new(path, Some(&imported));
    // The values are in the manifests, and what stays out is told.
    result.secrets.clear();
    result.written = true;
    result.notes.extend(made.left_out.iter().cloned());
    if path == Path::new("-") {
        result.yaml = Some(made.yaml.clone());
        print_yaml(format, &made.yaml, &result)?;
        return Ok(Exit::Done);
    }
    if !force && path.exists() {
        return Err(exists_already(path));
    }
    write(path, &made.yaml, force)?;
    output::print_for_programs(format, &result)?;
    let values = notes::counted(made.values, "value");
    let (servers, path) = (notes::counted(made.servers, "server"), path.display());
    notes::note(&format!("wrote {servers} to {path}, with {values} in Secrets: keep it out of repositories"));
    notes::note(&format!("`kubectl apply -f {path}` puts them into the cluster"));
    Ok(Exit::Done)
}

/// Imports what `from` means for the configuration at `path`, whose text is `before`; what the person should
/// know is printed. `asks` allows a question at the terminal.
fn imported(
    from: &str,
    path: &Path,
    before: &str,
    on_conflict: Option<OnConflict>,
    asks: bool,
) -> Result<Imported, CommandFailure> {
    let mut files = Vec::new();
    for path in known_clients::files(from)? {
        let text =
            text_of(&path).map_err(|error| CommandFailure::new(format!("{}: {error}", path.display())))?;
        let folder = std::path::absolute(&path).ok().and_then(|path| path.parent().map(Path::to_owned));
        files.push((path.display().to_string(), text, folder));
    }
    let client = names().find(|client| *client == from);
    let texts: Vec<_> = files
        .iter()
        .map(|(name, text, folder)| ClientText { name, text, folder: folder.as_deref(), client })
        .collect();
    let names = files.iter().map(|(name, _, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    let home = folders::home_dir();
    let backends =
        edit::names(before).map_err(|error| CommandFailure::new(format!("{}: {error}", path.display())))?;
    let variables = KnownVariables::of(path, before);
    let mut surroundings = Surroundings {
        home: home.as_deref(),
        backends: &backends,
        conflict: on_conflict.map_or(NameConflict::Skip, NameConflict::from),
        is_taken: Some(&|name, value| variables.differs(name, value)),
        leaves_mistakes_out: true,
    };
    let import = |surroundings: &Surroundings<'_>| {
        import::import_files(&texts, surroundings).map_err(|error| match error {
            // The message names the file among several.
            ImportError::Unreadable(message) => CommandFailure::new(message),
            other => CommandFailure::new(format!("{names}: {other}")),
        })
    };
    let mut imported = import(&surroundings)?;
    if asks && on_conflict.is_none() && !imported.skipped.is_empty() && prompt::is_possible() {
        surroundings.conflict = asked_for(&imported.skipped)?;
        imported = import(&surroundings)?;
    }
    report(&imported, &names);
    Ok(imported)
}

/// Reads a client's file; UTF-16 of Windows is decoded.
fn text_of(path: &Path) -> std::io::Result<String> {
    let bytes = std::fs::read(path)?;
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Ok(env_file::decode(&bytes));
    }
    String::from_utf8(bytes).map_err(|error| std::io::Error::new(ErrorKind::InvalidData, error.utf8_error()))
}

/// Asks once what becomes of the servers whose names exist.
fn asked_for(present: &[String]) -> Result<NameConflict, CommandFailure> {
    let question = format!("{} exist already: [s]kip, [r]ename, re[p]lace? [s]", present.join(", "));
    loop {
        match &*prompt::ask(&question)? {
            "" | "s" | "skip" => return Ok(NameConflict::Skip),
            "r" | "rename" => return Ok(NameConflict::Rename),
            "p" | "replace" => return Ok(NameConflict::Replace),
            _ => {}
        }
    }
}

fn report(imported: &Imported, names: &str) {
    let Imported { backends, replaced, skipped, notes, asked, .. } = imported;
    let count = notes::counted(backends.len(), "server");
    let list = if backends.is_empty() { String::new() } else { format!(": {}", backends.join(", ")) };
    notes::note(&format!("imported {count} of {names}{list}"));
    if !replaced.is_empty() {
        notes::note(&format!("in the place of backends of the same name: {}", replaced.join(", ")));
    }
    if !skipped.is_empty() {
        notes::note(&format!(
            "left out, because backends have these names: {}; `--on-conflict rename` or `replace` takes them",
            skipped.join(", ")
        ));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_windows_are_read_and_bytes_that_are_no_text_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "{\"é\": 1}\r\n";
        let marked = format!("\u{feff}{text}");
        let little: Vec<u8> = marked.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = marked.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for bytes in [little.as_slice(), &big, text.as_bytes()] {
            std::fs::write(file.path(), bytes).unwrap();
            assert_eq!(text_of(file.path()).unwrap(), text);
        }
        std::fs::write(file.path(), b"{\"a\": \"\xff\"}").unwrap();
        assert_eq!(text_of(file.path()).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
