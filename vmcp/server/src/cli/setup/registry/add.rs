//! `vmcp registry add`: an entry becomes a backend of the configuration file.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal as _};
use std::path::Path;

use clap::Args;
use console::Term;
use serde_json::json;
use vmcp_client_files::import::Imported;
use vmcp_config::{Secret, is_backend_name, normalize_name, sanitize};
use vmcp_registry::entry::{EntryStatus, ServerEntry};
use vmcp_registry::plan::{Draft, InstallMethod, PlanError};

use super::WantedWay;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::options::{GlobalOptions, environment};
use crate::cli::setup::config_edit::{self, OnMistake};
use crate::config_file::edit_lock::EditLock;
use crate::config_file::env_file::{self, Addition, OtherValue};

/// The server to add.
#[derive(Debug, Args)]
pub(super) struct AddArguments {
    /// Name, or its part behind the slash; `NAME@VERSION` for another version than the latest
    pub(super) name: String,
    /// Value that the server asks for; repeatable. `NAME='${secret:TOKEN}'` refers to a stored secret
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = pair)]
    values: Vec<(String, String)>,
    /// Way to run or reach it [default: the first usable one; addresses before programs]
    #[arg(long, value_name = "WAY")]
    via: Option<WantedWay>,
    /// Name of the backend [default: the part of the server's name behind the slash]
    #[arg(long = "as", value_name = "NAME")]
    backend: Option<String>,
    /// Print the entry of `backends`, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Format of the result: `file`, `backend`, `server`, `version`, `secrets`, `notes`, or, with --dry-run,
    /// `yaml` and `missing` in place of `file` and `secrets`; of a failure `error`, `remedy`, `exitCode`
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: OutputFormat,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it like NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Adds the entry, which is from `source`.
pub(super) fn run(
    entry: &ServerEntry,
    source: &str,
    arguments: &AddArguments,
    global: &GlobalOptions,
) -> Result<Exit, CommandFailure> {
    let backend = backend_name(entry, arguments.backend.as_deref())?;
    let way = arguments.via.map(WantedWay::way);
    let mut answers: BTreeMap<String, String> = arguments.values.iter().cloned().collect();
    let mut draft = draft(entry, way, &answers)?;
    let asks = !arguments.dry_run && arguments.output == OutputFormat::Table;
    if !draft.missing.is_empty() && asks && io::stdin().is_terminal() {
        ask(&draft, &mut answers)?;
        draft = self::draft(entry, way, &answers)?;
    }
    if entry.status == EntryStatus::Deprecated {
        notes::note(&format!("note: {} is deprecated", entry.name));
    }
    for note in &draft.notes {
        notes::note(&format!("note: {note}"));
    }
    let missing = draft.missing.join(", ");
    if arguments.dry_run {
        if !missing.is_empty() {
            notes::note(&format!("note: values are missing: {missing}"));
        }
        let variable = |label: &str| variable_name(&backend, label);
        let yaml = draft.yaml(&backend, &variable);
        let result = json!({
            "backend": backend,
            "server": entry.name,
            "version": entry.version,
            "yaml": yaml,
            "missing": draft.missing,
            "notes": draft.notes,
        });
        match arguments.output {
            OutputFormat::Table => output::result(&yaml)?,
            OutputFormat::Json | OutputFormat::Yaml => output::print_for_programs(arguments.output, &result)?,
        }
        return Ok(Exit::Done);
    }
    if !missing.is_empty() {
        let sets: Vec<_> =
            draft.missing.iter().map(|label| format!("--set {}=…", sanitize::shell_word(label))).collect();
        return Err(CommandFailure::new(format!("{} needs values for: {missing}", entry.name))
            .exit(Exit::Usage)
            .remedy(format!("add {}; `vmcp registry show {}` explains them", sets.join(" "), entry.name)));
    }
    let path = config_edit::file_for_new_servers(global)?;
    let _lock = EditLock::wait(&path);
    let imported = imported(entry, source, &backend, &draft, &path)?;
    config_edit::append(&path, &imported, OnMistake::Refuse, global)?;
    notes::note(&format!(
        "added {backend} to {}: {} {} by {}; `vmcp backends` shows its state",
        path.display(),
        entry.name,
        entry.version,
        draft.origin
    ));
    let result = json!({
        "file": path.display().to_string(),
        "backend": backend,
        "server": entry.name,
        "version": entry.version,
        "secrets": imported.variables.keys().collect::<Vec<_>>(),
        "notes": draft.notes,
    });
    output::print_for_programs(arguments.output, &result)?;
    Ok(Exit::Done)
}

fn draft(
    entry: &ServerEntry,
    way: Option<InstallMethod>,
    answers: &BTreeMap<String, String>,
) -> Result<Draft, CommandFailure> {
    Draft::new(entry, way, answers).map_err(|error| {
        let failure = CommandFailure::new(error.to_string());
        match error {
            PlanError::Value { .. } | PlanError::UnknownInput { .. } | PlanError::NoWay { .. } => failure
                .exit(Exit::Usage)
                .remedy(format!("`vmcp registry show {}` shows what it takes", entry.name)),
            PlanError::Refused { .. } | PlanError::AllRefused(_) => failure.remedy(
                "tell the registry's owner; if you know the server, `vmcp add` takes a command or a URL",
            ),
        }
    })
}

fn backend_name(entry: &ServerEntry, wanted: Option<&str>) -> Result<String, CommandFailure> {
    let last = entry.name.rsplit('/').next().unwrap_or(&entry.name);
    let name = wanted.map_or_else(|| normalize_name(last), |wanted| Some(wanted.to_owned()));
    name.filter(|name| is_backend_name(name)).ok_or_else(|| {
        CommandFailure::new(format!("`{}` is not a backend name", wanted.unwrap_or(last)))
            .exit(Exit::Usage)
            .remedy("give one by --as: lower-case letters, digits, `-`, `_` and `.`, at most 63")
    })
}

/// Asks the person for missing values; secrets are not shown.
fn ask(draft: &Draft, answers: &mut BTreeMap<String, String>) -> Result<(), CommandFailure> {
    let failed = |error: io::Error| CommandFailure::of_pipe("cannot read the value", &error);
    let terminal = Term::stderr();
    for question in draft.questions.iter().filter(|question| draft.missing.contains(&question.label)) {
        let description = question.input.description.as_deref().unwrap_or_default();
        let words = sanitize::text(&format!("{} {description}", question.label));
        terminal.write_str(&format!("{words}: ")).map_err(failed)?;
        let line = if question.is_secret { terminal.read_secure_line() } else { terminal.read_line() };
        answers.insert(question.label.clone(), line.map_err(failed)?);
    }
    Ok(())
}

/// Returns the lines for the file, and the secrets for `.env` beside it.
fn imported(
    entry: &ServerEntry,
    source: &str,
    backend: &str,
    draft: &Draft,
    path: &Path,
) -> Result<Imported, CommandFailure> {
    let env_file = path.with_file_name(env_file::NAME);
    let mut variables: BTreeMap<String, Secret> = BTreeMap::new();
    let mut names = BTreeMap::new();
    for (label, value) in draft.secrets() {
        let variable = free_variable(backend, label, value, &env_file, &variables)?;
        variables.insert(variable.clone(), Secret::from(value));
        names.insert(label.to_owned(), variable);
    }
    let variable_of =
        |label: &str| names.get(label).cloned().unwrap_or_else(|| variable_name(backend, label));
    let comment =
        sanitize::text(&format!("{} {} by {}, from {source}", entry.name, entry.version, draft.origin));
    Ok(Imported {
        yaml: String::new(),
        entries: format!("# {comment}\n{}", draft.yaml(backend, &variable_of)),
        restricts_tools: false,
        backends: vec![backend.to_owned()],
        replaced: Vec::new(),
        skipped: Vec::new(),
        notes: Vec::new(),
        variables,
        asked: BTreeSet::new(),
    })
}

/// Returns a variable that holds nothing else: an entry must not get another server's secret by its name.
fn free_variable(
    backend: &str,
    label: &str,
    value: &str,
    env_file: &Path,
    taken: &BTreeMap<String, Secret>,
) -> Result<String, CommandFailure> {
    let first = variable_name(backend, label);
    let numbered = (2..100).map(|number| format!("{first}_{number}"));
    for name in std::iter::once(first.clone()).chain(numbered) {
        if taken.contains_key(&name) || environment(&name).is_some_and(|other| other != value) {
            continue;
        }
        let wanted = BTreeMap::from([(name.clone(), Secret::from(value))]);
        let addition = Addition::prepare(env_file, &wanted, OtherValue::Stays)
            .map_err(|error| CommandFailure::new(format!("{}: {error}", env_file.display())))?;
        if addition.differ.is_empty() {
            return Ok(name);
        }
    }
    Err(CommandFailure::new(format!("{first} and 98 names like it are taken in {}", env_file.display()))
        .remedy("choose another name for the backend by --as"))
}

/// Returns the name of the environment variable for a secret input.
fn variable_name(backend: &str, label: &str) -> String {
    let name = format!("{backend}_{label}").to_ascii_uppercase();
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("V_{name}") } else { name }
}
