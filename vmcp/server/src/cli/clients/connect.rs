//! `vmcp connect`: writes vmcp into another client's file, takes out the servers that it serves, and undoes
//! both.

mod client_entry;
mod record;
pub(in crate::cli) mod snippets;

use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde::Serialize;
use vmcp_client_files::client_file::{self, Connected};
use vmcp_client_files::known_clients::names;
use vmcp_config::{Config, edit, normalize_name};

use self::client_entry::{ClientShape, Endpoint, KEY_VARIABLE, StartedProgram};
use self::record::{ConnectedClient, FormerFile};
use super::known_clients;
use crate::cli::completions::candidates;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::installed_program::program_to_write;
use crate::cli::options::{GlobalOptions, profile_of};
use crate::cli::process::shell_variables::variables;
use crate::cli::running_server::mcp_url;
use crate::config_file::edit_lock::EditLock;
use crate::config_file::secret_store::{is_read_only, replace_private};

/// Name of vmcp in the client's file.
const NAME: &str = "vmcp";
/// Told to people who connect Codex, which asks for each call of a tool that may change something.
const NOTE_ON_APPROVALS: &str = "codex asks you before each call of optim_call_tool, and `codex exec`, which cannot ask, refuses \
     it; if vmcp's own rules are enough for you, add to that file: [mcp_servers.vmcp.tools.optim_call_tool] \
     approval_mode = \"approve\"";

/// Make another client use vmcp, or undo that
///
/// Writes vmcp into the client's own file, where comments stay, and takes out the servers that the
/// configuration file has too. They are kept, and --undo puts them back. All clients share one running
/// server, which the first of them starts (`vmcp mcp-server`), with the PATH, the proxies and the folders of
/// this shell.
///
/// For programs (-o json) the result has `client`, `file`, `connected`, `taken` (servers that left the file),
/// `left` (servers that stay in it), `restored` (servers that --undo put back) and `notes`. A failure has
/// `error`, `remedy` and `exitCode`.
#[expect(clippy::struct_excessive_bools, reason = "one field for each flag")]
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp init --from claude && vmcp connect claude    # all servers of Claude Code behind vmcp
  vmcp connect cursor --own-server                  # a server of its own instead of the shared one
  vmcp connect cursor --http                        # the URL of a running `vmcp serve`
  vmcp connect cursor --profile work                # one of `profiles` instead of everything
  vmcp connect claude --undo")]
pub(in crate::cli) struct Arguments {
    /// Client: amp, claude, claude-desktop, cline, codex, continue, copilot-cli, cursor, gemini, goose, kiro,
    /// lm-studio, opencode, roo, vscode, vscode-insiders, vscodium, windsurf or zed
    #[arg(add = ArgValueCandidates::new(candidates::clients))]
    client: String,
    /// Write the URL of `vmcp serve`, which you start, instead of a command that the client starts; where
    /// `incomingAuth` wants one of `apiKeys`, the entry refers to the variable VMCP_TOKEN
    #[arg(long)]
    http: bool,
    /// Write a command that starts a server for this client alone (`vmcp serve --stdio`)
    #[arg(long, conflicts_with = "http")]
    own_server: bool,
    /// Show the client only this part, one of `profiles` of the configuration file
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(candidates::profiles))]
    profile: Option<String>,
    /// Leave the client's other servers in its file
    #[arg(long)]
    keep: bool,
    /// Put the client's file back: vmcp leaves it, the servers that were taken out return
    #[arg(long, conflicts_with_all = ["http", "own_server", "keep", "profile"])]
    undo: bool,
    /// File of the client [default: the one of this user]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
}

/// Result for programs.
#[derive(Debug, Default, Serialize)]
struct ConnectionReport<'a> {
    client: &'a str,
    /// File of the client.
    file: String,
    /// True if the client uses vmcp now.
    connected: bool,
    /// Servers that left the file.
    taken: Vec<String>,
    /// Servers that stay in the file.
    left: Vec<String>,
    /// Servers that were put back.
    restored: Vec<String>,
    notes: Vec<String>,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: &Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    output::with_failure(arguments.output, || connect_or_undo(arguments, global))
}

fn connect_or_undo(arguments: &Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let client = &*arguments.client;
    let shape = ClientShape::for_client(client).ok_or_else(|| {
        let known: Vec<_> = names().collect();
        CommandFailure::new(format!("`{client}` is not a known client"))
            .exit(Exit::Usage)
            .remedy(format!("name one of {}", known.join(", ")))
    })?;
    if arguments.undo { undo(arguments, &shape) } else { connect(arguments, &shape, global) }
}

fn connect(
    arguments: &Arguments,
    shape: &ClientShape,
    global: &GlobalOptions,
) -> Result<Exit, CommandFailure> {
    let Arguments { client, http, own_server, profile, keep, undo: _, file, output: format } = arguments;
    let config = global.config_or_running()?;
    let path = client_path(client, file.as_deref())?;
    if let Some(name) = profile {
        profile_of(&global.load_file(&config)?.config, name)?;
    }
    let mut further = Vec::new();
    let endpoint = if *http {
        let config = global.load_file(&config)?.config;
        let below = profile.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
        let url = mcp_url(config.server.listen, config.server.tls.is_some()) + &below;
        Endpoint::Url { url, needs_key: needs_key(&config) }
    } else {
        let (variables, note) = shell_variables();
        further.extend(note);
        Endpoint::Command(StartedProgram {
            program: program_to_write()?,
            config: std::path::absolute(&config)?,
            profile: profile.clone(),
            own_server: *own_server,
            variables,
        })
    };
    let entry = shape.entry(&endpoint).map_err(CommandFailure::new)?;
    let served = if *keep { Vec::new() } else { edit::names(&read(&config)?)? };
    let is_served = |name: &str| normalize_name(name).is_some_and(|name| served.contains(&name));
    let of_file = |error: String| not_edited(&path, &entry, &error);
    let _lock = EditLock::wait(&path);
    let before = read(&path)?;
    let is_new = !path.exists();
    let Connected { text, mut taken, others } =
        client_file::connect(&before, shape.format, shape.place, NAME, &entry, &is_served)
            .map_err(of_file)?;
    let names: Vec<_> = taken.iter().map(|server| server.name.clone()).filter(|name| name != NAME).collect();
    if is_read_only(&path) {
        return Err(not_edited(&path, &entry, "it is read-only"));
    }
    // An earlier entry of vmcp's own is not the client's: --undo would leave it in the file.
    if record::of_client(client)?.iter().any(|known| known.file == path) {
        taken.retain(|server| server.name != NAME || server.place != shape.place);
    }
    // The record is written first: what leaves the file is never only in memory.
    let former = FormerFile::new((!is_new).then_some(before), &text);
    record::add(client, ConnectedClient { file: path.clone(), taken, former })?;
    write(&path, &text)?;
    notes::note(&format!("{client} uses vmcp now ({}); restart it", path.display()));
    if !names.is_empty() {
        notes::note(&format!(
            "taken out, because vmcp serves them: {}; `vmcp connect {client} --undo` puts them back",
            names.join(", ")
        ));
    }
    if !others.is_empty() && !keep {
        notes::note(&format!(
            "still there: {}; `vmcp init --from {client} --merge` imports them, then connect again",
            others.join(", ")
        ));
    }
    for project in known_clients::project_files(client) {
        further.push(format!("note: {} of this project may have servers too", project.display()));
    }
    if client == "codex" {
        further.push(NOTE_ON_APPROVALS.to_owned());
    }
    if let Endpoint::Url { needs_key, .. } = endpoint {
        further.push("`vmcp serve` must run while the client does".to_owned());
        if needs_key {
            further.push(note_on_key(shape));
        }
    }
    for note in &further {
        notes::note(note);
    }
    let result = ConnectionReport {
        client,
        file: path.display().to_string(),
        connected: true,
        taken: names,
        left: others,
        notes: further,
        ..ConnectionReport::default()
    };
    output::print_for_programs(*format, &result)?;
    Ok(Exit::Done)
}

/// Returns the variables of this shell that the client's entry gets. The password of a proxy stays out of the
/// file, and a note says so.
fn shell_variables() -> (Vec<(String, String)>, Option<String>) {
    let is_secret =
        |name: &str, value: &str| name.to_ascii_uppercase().ends_with("_PROXY") && value.contains('@');
    let (secret, plain): (Vec<_>, Vec<_>) = variables(&|name| std::env::var(name).ok())
        .into_iter()
        .partition(|(name, value)| is_secret(name, value));
    let names: Vec<_> = secret.iter().map(|(name, _)| name.as_str()).collect();
    let note = format!(
        "note: {} may hold a password, and stays out of the file: the client has to set it itself",
        names.join(", ")
    );
    (plain, (!secret.is_empty()).then_some(note))
}

/// Returns how the client gets the key that `incomingAuth` wants.
fn note_on_key(shape: &ClientShape) -> String {
    if shape.refers_to_key() {
        return format!("the entry refers to {KEY_VARIABLE}: {}", shape.place_of_key());
    }
    "`incomingAuth` wants a key, and this client cannot refer to one: add the header \
     `Authorization: Bearer …` to the entry, and keep the file private"
        .to_owned()
}

fn undo(arguments: &Arguments, shape: &ClientShape) -> Result<Exit, CommandFailure> {
    let client = &*arguments.client;
    let ConnectedClient { file, taken, former } = connected(client, arguments.file.as_deref())?;
    let _lock = EditLock::wait(&file);
    let now = read(&file)?;
    let of_file = |error: &dyn std::fmt::Display| CommandFailure::new(format!("{}: {error}", file.display()));
    match former.filter(|former| former.is_untouched(&now)) {
        Some(FormerFile { text: Some(text), .. }) => write(&file, &text)?,
        Some(FormerFile { text: None, .. }) => {
            std::fs::remove_file(&file).map_err(|error| of_file(&error))?;
        }
        None => {
            let text = client_file::disconnect(&now, shape.format, shape.place, NAME, &taken)
                .map_err(|error| of_file(&error))?;
            write(&file, &text)?;
        }
    }
    record::remove(client, &file)?;
    let names: Vec<_> = taken.iter().map(|server| server.name.clone()).collect();
    let back = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    notes::note(&format!("vmcp left {}; servers put back: {back}", file.display()));
    let file = file.display().to_string();
    let result = ConnectionReport { client, file, restored: names, ..ConnectionReport::default() };
    output::print_for_programs(arguments.output, &result)?;
    Ok(Exit::Done)
}

/// Returns the connection that `--undo` ends: the one of `file`, else of the file that the client uses now,
/// else the only one of the client, whose variable may point elsewhere by now.
fn connected(client: &str, file: Option<&Path>) -> Result<ConnectedClient, CommandFailure> {
    let mut known = record::of_client(client)?;
    let current = client_path(client, file);
    let is_current = |known: &ConnectedClient| current.as_ref().is_ok_and(|path| *path == known.file);
    if let Some(position) = known.iter().position(is_current) {
        return Ok(known.swap_remove(position));
    }
    if file.is_none()
        && known.len() == 1
        && let Some(one) = known.pop()
    {
        return Ok(one);
    }
    let files: Vec<_> = known.iter().map(|known| known.file.display().to_string()).collect();
    let failure = CommandFailure::new(format!("{client} was not connected by `vmcp connect`"));
    let failure = failure.exit(Exit::NothingFound);
    Err(if files.is_empty() {
        failure
    } else {
        failure.remedy(format!("name one of its connected files with --file: {}", files.join(", ")))
    })
}

/// Returns the absolute path of the file in which `client` keeps its servers: a later command finds it from
/// any folder.
fn client_path(client: &str, file: Option<&Path>) -> Result<PathBuf, CommandFailure> {
    let path = file.map(Path::to_owned).or_else(|| known_clients::user_file(client)).ok_or_else(no_home)?;
    Ok(std::path::absolute(path)?)
}

/// Reads a file; an absent one is empty.
pub(in crate::cli) fn read(path: &Path) -> Result<String, CommandFailure> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|error| CommandFailure::new(format!("{}: {error}", path.display()))),
    }
}

/// Replaces the client's file; a link stays a link.
pub(in crate::cli) fn write(path: &Path, text: &str) -> Result<(), CommandFailure> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = target.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = folder.and_then(|()| replace_private(&target, text));
    written.map_err(|error| CommandFailure::new(format!("{}: {error}", path.display())))
}

fn not_edited(path: &Path, entry: &serde_json::Value, error: &str) -> CommandFailure {
    CommandFailure::new(format!("{} is not edited: {error}", path.display()))
        .remedy(format!("write it by hand, as `{NAME}`: {entry}"))
}

fn no_home() -> CommandFailure {
    CommandFailure::new("there is no home folder").remedy("name the client's file with --file")
}
/// True if clients send a key. With an issuer they sign in by themselves; a header would keep them from that.
pub(in crate::cli) fn needs_key(config: &Config) -> bool {
    let auth = &config.incoming_auth;
    !auth.api_keys.is_empty() && auth.issuers.is_empty()
}
