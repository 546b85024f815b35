//! `vmcp hooks install`: writes hooks into the client's own file, and takes them out again.

use std::path::PathBuf;

use clap::Args;
use url::Url;
use vmcp_client_files::hooks_file;
use vmcp_config::Config;
use vmcp_hooks::native::NativeClient;

use super::handlers::{HookRoute, handlers, is_own};
use super::{Client, hook_url};
use crate::cli::clients::connect::{read, write};
use crate::cli::clients::known_clients;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::installed_program::program_to_write;
use crate::cli::options::GlobalOptions;

/// Write hooks into a coding agent's configuration, or take them out
///
/// Other hooks stay. Comments stay, except inside the list of an event that changes. Claude Code calls the
/// server's URL itself; where it cannot, in Codex, and if the server has identities, the hook is `vmcp hooks
/// send`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp hooks install claude            # ~/.claude/settings.json
  vmcp hooks install codex             # ~/.codex/hooks.json; then trust it with /hooks in Codex
  vmcp hooks install codex --url https://mcp.example.com   # with VMCP_HOOKS_TOKEN in the environment
  vmcp hooks install claude --undo")]
pub(super) struct Arguments {
    /// Coding agent
    client: Client,
    /// Report each call of a tool too, which costs a request before and after each
    #[arg(long)]
    tools: bool,
    /// Server elsewhere [default: the one of the configuration file]
    #[arg(long, value_name = "URL")]
    url: Option<Url>,
    /// Take the hooks out again
    #[arg(long, conflicts_with_all = ["tools", "url"])]
    undo: bool,
    /// File of the client [default: the one of this user]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let client = arguments.client.native();
    let path = arguments.file.clone().or_else(|| user_file(client)).ok_or_else(|| {
        CommandFailure::new("there is no home folder").remedy("name the client's file with --file")
    })?;
    let text = read(&path)?;
    let current = hook_url(client, arguments.url.as_ref(), global).ok();
    let own = |handler: &serde_json::Value| is_own(client, handler, current.as_ref());
    let not_edited = |error: String| {
        CommandFailure::new(format!("{} is not edited: {error}", path.display()))
            .remedy("correct the file, or name another one with --file")
    };
    if arguments.undo {
        let (text, removed) = hooks_file::remove(&text, &own).map_err(not_edited)?;
        if removed == 0 {
            return Err(CommandFailure::new(format!("{} has no hooks of vmcp", path.display()))
                .exit(Exit::NothingFound));
        }
        write(&path, &text)?;
        notes::note(&format!("the hooks of vmcp left {}", path.display()));
        return Ok(Exit::Done);
    }
    let program = program_to_write()?;
    let (config, url) = if arguments.url.is_some() {
        (None, None)
    } else {
        let path = std::path::absolute(global.config_or_running()?)?;
        let config = global.load_file(&path)?.config;
        warn_of(&config);
        // The client itself sends no credentials; the command adds a token.
        let is_open = config.incoming_auth.is_anonymous();
        let url = is_open.then(|| hook_url(client, None, global)).transpose()?;
        (Some(path.display().to_string()), url)
    };
    let base = arguments.url.as_ref().map(Url::to_string).unwrap_or_default();
    let server = match &config {
        Some(config) => ["--config", config.as_str()],
        None => ["--url", base.as_str()],
    };
    let route = HookRoute { program: &program, server, url: url.as_ref() };
    let handlers = handlers(client, &route, arguments.tools);
    let text = hooks_file::install(&text, &handlers, &own).map_err(not_edited)?;
    write(&path, &text)?;
    let events: Vec<_> = handlers.iter().map(|(event, _)| *event).collect();
    notes::note(&format!("{} reports {} now ({})", client.name(), events.join(", "), path.display()));
    if client == NativeClient::Codex {
        notes::note("Codex runs them once you trust them: start it, enter /hooks, and trust each one");
    }
    notes::note("a hook is no gate: what a client must not call, a policy of the server refuses");
    Ok(Exit::Done)
}

/// Tells a person why the server would refuse the hooks.
fn warn_of(config: &Config) {
    if !config.optimizer.enabled || !config.optimizer.session_hooks.enabled {
        notes::note("the server takes no hooks yet: set optimizer.sessionHooks.enabled: true");
    }
    if !config.incoming_auth.is_anonymous() {
        notes::note("the server wants a token: set VMCP_HOOKS_TOKEN in the environment of the client");
    }
}

/// Returns the file in which the client keeps its hooks.
fn user_file(client: NativeClient) -> Option<PathBuf> {
    let place = match client {
        NativeClient::Claude => "~/.claude/settings.json",
        NativeClient::Codex => "~/.codex/hooks.json",
    };
    known_clients::resolved(client.name(), place)
}
