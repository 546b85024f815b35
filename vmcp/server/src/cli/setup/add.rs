//! `vmcp add`: adds a backend to the configuration file, or a server to a cluster.

use clap::Args;
use serde::Serialize;
use vmcp_config::{is_backend_name, normalize_name};

use super::config_edit::{self, OnMistake};
use super::known_variables::KnownVariables;
use super::kubernetes::{self, AddToCluster, ClusterArguments};
use super::server_arguments::{self, ServerArguments};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::operate::doctor::needed_programs;
use crate::cli::options::GlobalOptions;
use crate::config_file::edit_lock::EditLock;

/// Add a backend to the configuration file, or with --kubernetes to a cluster
///
/// Comments in the file stay; without a file, one is made. An entry that would be a mistake is refused.
/// Secrets in the arguments go to `.env` beside the file. A running server takes the backend at once.
/// A server without a name is named after its host or its package; entries in JSON, as pages show them for
/// other clients, are taken too.
///
/// With --kubernetes it becomes an MCPServer (a program, in an image) or an MCPServerEntry (an address), and
/// every value of --env and --header goes into a Secret, which is deleted with it.
///
/// For programs (-o json) the result has `file`, `created`, `backend` (the first one), `backends`, `secrets`
/// (variables in `.env`) and `notes`; with --kubernetes `kind`, `name`, `namespace` and `secret`. A failure
/// has `error`, `remedy` and `exitCode`.
#[derive(Debug, Args)]
#[command(after_help = r#"Examples:
  vmcp add time -- uvx mcp-server-time
  vmcp add github https://api.githubcopilot.com/mcp/ --header "Authorization: Bearer $TOKEN"
  vmcp add npx -y @modelcontextprotocol/server-memory       # its name is memory
  vmcp add --transport sse https://mcp.example.com/sse      # its name is example
  vmcp add '{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"]}}}'
  vmcp add db --env DATABASE_URI=postgresql://me:secret@localhost/x -- npx -y some-server
  vmcp add search --kubernetes --image node:22-alpine --env API_KEY="$API_KEY" -- npx -y some-server"#)]
pub(in crate::cli) struct Arguments {
    /// Name of the backend, which is also the prefix of its tools [default: from its host or its package]
    name: Option<String>,
    #[command(flatten)]
    server: ServerArguments,
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    in_cluster: AddToCluster,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
}

/// Result for programs.
#[derive(Debug, Serialize)]
struct Added<'a> {
    /// Configuration file.
    file: String,
    /// True if the command made the file.
    created: bool,
    /// The first backend.
    backend: &'a str,
    backends: &'a [String],
    /// Variables of `.env` that hold the secrets.
    secrets: Vec<&'a str>,
    notes: &'a [String],
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let format = arguments.output;
    output::with_failure(format, || add(arguments, global))
}

fn add(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { name, server, cluster, in_cluster, output: format } = arguments;
    let (name, server) = server.with_name(name)?;
    if cluster.kubernetes {
        let name = name.map_or_else(|| server.derived_name(), Ok)?;
        return kubernetes::add(&name, server, &cluster, in_cluster, format, global);
    }
    if let Some(name) = name.as_deref().filter(|name| !is_backend_name(name)) {
        let legal = "lower-case letters, digits, `-`, `_` and `.`, at most 63";
        let remedy = match normalize_name(name) {
            Some(plain) => format!("call it `{plain}`: {legal}"),
            None => format!("use {legal}"),
        };
        let message = format!("`{name}` is not a backend name");
        return Err(CommandFailure::new(message).exit(Exit::Usage).remedy(remedy));
    }
    let servers = server.servers(name.as_deref())?;
    let path = config_edit::file_for_new_servers(global)?;
    let _lock = EditLock::wait(&path);
    let is_new = !path.exists();
    let text = config_edit::read_or_first_lines(&path)?;
    let variables = KnownVariables::of(&path, &text);
    let first = servers.keys().next().cloned().unwrap_or_default();
    let is_taken = |variable: &str, value: &str| variables.used_by_others(&first, variable, value);
    let imported = server_arguments::import_servers(&servers, Some(&is_taken))?;
    // Secrets are named where they are written.
    for note in imported.notes.iter().filter(|note| !note.contains("is expected in the environment variable"))
    {
        notes::note(&format!("note: {note}"));
    }
    config_edit::append(&path, &imported, OnMistake::Refuse, global)?;
    let made = if is_new { ", which is new" } else { "" };
    let names = imported.backends.join(", ");
    let state = if imported.backends.len() == 1 { "its state" } else { "their state" };
    notes::note(&format!("added {names} to {}{made}; `vmcp backends` shows {state}", path.display()));
    if let Ok(file) = global.load_file(&path) {
        needed_programs::note_missing(&file.config, Some(&imported.backends));
    }
    let result = Added {
        file: path.display().to_string(),
        created: is_new,
        backend: imported.backends.first().map_or("", String::as_str),
        backends: &imported.backends,
        secrets: imported.variables.keys().map(String::as_str).collect(),
        notes: &imported.notes,
    };
    output::print_for_programs(format, &result)?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        add: Arguments,
    }

    #[test]
    fn a_server_that_the_file_could_not_hold_is_refused_and_the_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmcp.yaml");
        let before = "backends:\n  - name: old\n    command: [old]\n";
        std::fs::write(&path, before).unwrap();
        for words in [
            &["x", "ftp://a.example"][..],
            &["x", "localhost:3000/mcp"],
            &["x", "mcp.example.com/mcp"],
            &["x", "https://"],
            &["x", "notes"],
            &["x", "https://a.example/mcp", "--env", "TOKEN=t"],
            &["x", "--header", "X-Token: t", "--", "notes-mcp"],
            &["x", "--env", "=t", "--", "notes-mcp"],
            &["x", "--", "API_KEY=sk-0123456789", "notes-mcp"],
            &["x", "API_KEY=sk-0123456789 notes-mcp"],
            &["x", "cd /srv && npx -y notes-mcp"],
            &["x", "npx -y 'notes mcp'"],
            &["x", "npx 'notes mcp'", "--", "-y"],
            &["Old One", "--", "notes-mcp"],
            &["https://a.example/mcp", "x"],
            &["x", "https://a.example/mcp", "--", "notes-mcp"],
            &["--transport", "sse", "x", "--", "notes-mcp"],
            &["--transport", "stdio", "x", "https://a.example/mcp"],
            &["x", r#"{"command": "notes-mcp"}"#, "--env", "A=1"],
            &["x", r#"{"command": "#],
            &["http://127.0.0.1:3000/mcp"],
            &["old", "--", "notes-mcp"],
            &["x"],
        ] {
            let line = Line::try_parse_from(["add"].iter().chain(words)).unwrap();
            let refused = run(line.add, &GlobalOptions::of_file(Some(path.clone())));
            assert!(refused.is_err(), "{words:?}: {}", std::fs::read_to_string(&path).unwrap());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), before, "{words:?}");
        }
        assert!(!folder.path().join(".env").exists(), "secrets of refused servers are written nowhere");
    }

    #[test]
    fn servers_are_added_as_people_type_and_paste_them() {
        for (words, entry) in [
            (&["https://mcp.notion.com/mcp"][..], "name: notion\n    url: https://mcp.notion.com/mcp\n"),
            (
                &["npx", "-y", "@me/server-memory"],
                "name: memory\n    command: [npx, -y, \"@me/server-memory\"]\n",
            ),
            (&["kb", "npx", "-y", "kb-mcp"], "name: kb\n    command: [npx, -y, kb-mcp]\n"),
            (&["kb", "npx -y kb-mcp"], "name: kb\n    command: [npx, -y, kb-mcp]\n"),
            (&["uvx mcp-server-time"], "name: time\n    command: [uvx, mcp-server-time]\n"),
            (
                &["npx -y mcp-remote https://mcp.linear.app/sse"],
                "name: linear\n    command: [npx, -y, mcp-remote, ",
            ),
            (&["l", "npx -y mcp-remote https://a.example/sse"], "command: [npx, -y, mcp-remote, "),
            (&["kb", "npx", "--", "-y", "kb-mcp"], "name: kb\n    command: [npx, -y, kb-mcp]\n"),
            (
                &["docker", "run", "-i", "--rm", "-e", "PLAIN=1", "mcp/fetch"],
                "name: fetch\n    command: [docker, run, -i, --rm, -e, ",
            ),
            (
                &["-t", "SSE", "a", "https://a.example/x", "-H", "X-Team: core"],
                "url: https://a.example/x\n    transport: sse\n    headers:\n      X-Team: core\n",
            ),
            (&["--transport", "stdio", "kb", "--", "kb-mcp"], "name: kb\n    command: [kb-mcp]\n"),
            (
                &[r#"{"mcpServers": {"j": {"command": "uvx", "args": ["j"]}, "k": {"command": "k"}}}"#],
                "name: j\n    command: [uvx, j]\n  - name: k\n",
            ),
            (&["j", r#"{"command": "uvx", "args": ["j"]}"#], "name: j\n    command: [uvx, j]\n"),
            (&[r#""l": {"url": "https://l.example/mcp"},"#], "name: l\n    url: https://l.example/mcp\n"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("vmcp.yaml");
            let typed = ["vmcp", "add"].iter().chain(words).map(std::ffi::OsString::from).collect();
            let typed = server_arguments::with_separator(typed);
            let line = Line::try_parse_from(&typed[1..]).unwrap();
            run(line.add, &GlobalOptions::of_file(Some(path.clone()))).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.contains(entry), "{words:?}: {text}");
        }
    }

    #[test]
    fn a_secret_of_another_program_stays_and_the_own_one_is_rotated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmcp.yaml");
        let env_file = folder.path().join(".env");
        std::fs::write(&env_file, "APP_API_KEY=of-app\nOWN1_TOKEN=old\n").unwrap();
        let add = |words: &[&str]| {
            let line = Line::try_parse_from(["x"].iter().chain(words)).unwrap();
            run(line.add, &GlobalOptions::of_file(Some(path.clone()))).unwrap();
        };
        add(&["own1", "https://own.example/mcp", "--header", "Authorization: Bearer new"]);
        add(&["llm", "--env", "APP_API_KEY=of-llm", "--", "uvx", "x"]);
        let expected = "APP_API_KEY=of-app\nOWN1_TOKEN=new\nLLM_APP_API_KEY=of-llm\n";
        assert_eq!(std::fs::read_to_string(&env_file).unwrap(), expected);
    }
}
