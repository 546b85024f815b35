//! `vmcp registry`: finds servers in a catalog, shows them, and adds them to the configuration file.

mod add;
mod fetch;
mod mirror;
mod show;
pub(in crate::cli) mod source;

use clap::{Args, Subcommand, ValueEnum};
use vmcp_registry::catalog::{LookupError, RegistryCatalog};
use vmcp_registry::entry::{EntryStatus, ServerEntry};
use vmcp_registry::plan::InstallMethod;
use vmcp_registry::report::{summary, ways};

use crate::cli::console::brief::brief;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::options::GlobalOptions;

/// Find servers in a registry, and add them to the configuration file
///
/// A registry is a service that speaks the API v0.1 of the official MCP registry, or a file of its entries.
/// A service is mirrored in ~/.cache/vmcp for an hour, and the mirror serves while the service cannot be
/// reached. A running vmcp asks one only for the tools search_registry and install_server.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp registry search weather forecast
  vmcp registry show io.github.example/weather
  vmcp registry add io.github.example/weather --set API_KEY=\"$API_KEY\"
  vmcp registry add weather --via pypi --as forecasts --dry-run
  vmcp registry search --from ./servers.json
  VMCP_REGISTRY_TOKEN=… vmcp registry search --from https://registry.example.com jira")]
pub(in crate::cli) struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    source: SourceArguments,
}

#[derive(Debug, Args)]
struct SourceArguments {
    /// Registry: its URL, a file of entries, or a folder of such files [default: the
    /// official one, registry.modelcontextprotocol.io]
    #[arg(long, global = true, value_name = "URL|FILE", env = "VMCP_REGISTRY")]
    from: Option<String>,
    /// Ask the registry, even if the mirror is younger than an hour
    #[arg(long, global = true)]
    refresh: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Search servers by words; without words, list them
    Search {
        /// Words of the name or the description
        words: Vec<String>,
        /// Most servers
        #[arg(short = 'n', long, default_value_t = 20)]
        limit: usize,
        /// Format of the result
        #[arg(short, long, value_name = "FORMAT", default_value = "table")]
        output: OutputFormat,
    },
    /// Show a server: its versions, ways to run it, and the values that it asks for
    Show {
        /// Name, or its part behind the slash; `NAME@VERSION` for another version than the latest
        name: String,
        /// Format of the result
        #[arg(short, long, value_name = "FORMAT", default_value = "table")]
        output: OutputFormat,
    },
    /// Add a server as a backend, with its version pinned
    ///
    /// Values that it asks for come from --set; on a terminal, missing ones are asked for. Secrets go to
    /// `.env` beside the file.
    Add(add::AddArguments),
}

/// Way to run or reach a server.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum WantedWay {
    /// At its URL.
    Remote,
    /// From npm, by npx.
    Npm,
    /// From PyPI, by uvx.
    Pypi,
    /// As an image, by docker.
    Oci,
}

impl WantedWay {
    fn way(self) -> InstallMethod {
        match self {
            WantedWay::Remote => InstallMethod::Remote,
            WantedWay::Npm => InstallMethod::Npm,
            WantedWay::Pypi => InstallMethod::Pypi,
            WantedWay::Oci => InstallMethod::Oci,
        }
    }
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let format_of_failures = match &arguments.action {
        Action::Add(arguments) => arguments.output,
        Action::Search { .. } | Action::Show { .. } => OutputFormat::Table,
    };
    output::with_failure(format_of_failures, || act(arguments, global))
}

fn act(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    global.start_logs()?;
    let Arguments { action, source } = arguments;
    let source::LoadedRegistry { name: source, catalog, notes } =
        source::load(source.from.as_deref(), source.refresh)?;
    for note in notes {
        notes::note(&format!("note: {note}"));
    }
    match action {
        Action::Search { words, limit, output } => search(&catalog, &words.join(" "), limit, output),
        Action::Show { name, output } => {
            let entry = named(&catalog, &name)?;
            show::run(entry, catalog.versions(&entry.name), output)
        }
        Action::Add(arguments) => {
            let entry = named(&catalog, &arguments.name)?;
            add::run(entry, &source, &arguments, global)
        }
    }
}

fn search(
    catalog: &RegistryCatalog,
    words: &str,
    limit: usize,
    format: OutputFormat,
) -> Result<Exit, CommandFailure> {
    let found = catalog.search(words, limit);
    let report: Vec<_> = found.iter().map(|entry| summary(entry)).collect();
    output::print(format, &report, || {
        let rows = found.iter().map(|entry| {
            let description = match entry.status {
                EntryStatus::Deprecated => format!("(deprecated) {}", brief(&entry.description)),
                _ => brief(&entry.description),
            };
            [entry.name.clone(), entry.version.clone(), ways(entry).join(" "), description]
        });
        output::table(["NAME", "VERSION", "WAYS", "DESCRIPTION"], rows)
    })?;
    notes::note(&format!("{} of {}", found.len(), notes::counted(catalog.len(), "server")));
    Ok(if found.is_empty() { Exit::NothingFound } else { Exit::Done })
}

/// Returns the entry that `NAME` or `NAME@VERSION` means.
fn named<'a>(catalog: &'a RegistryCatalog, name: &str) -> Result<&'a ServerEntry, CommandFailure> {
    let (name, version) = match name.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (name, None),
    };
    catalog.find(name, version).map_err(|error| {
        let (exit, remedy) = match &error {
            LookupError::Ambiguous { .. } => (Exit::Usage, "give the whole name, with its namespace"),
            LookupError::Unknown(_) => (Exit::NothingFound, "`vmcp registry search WORDS` finds names"),
            LookupError::Version { .. } => (Exit::NothingFound, "a mirror has the latest versions alone"),
        };
        CommandFailure::new(error.to_string()).exit(exit).remedy(remedy)
    })
}
