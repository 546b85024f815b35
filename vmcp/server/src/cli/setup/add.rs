//! `vmcp add`: adds a backend to the configuration file, or a server to a cluster.

use clap::Args;
use serde::Serialize;
use vmcp_config::is_backend_name;

use super::config_edit::{self, OnMistake};
use super::known_variables::KnownVariables;
use super::kubernetes::{self, AddToCluster, ClusterArguments};
use super::server_arguments::ServerArguments;
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
///
/// With --kubernetes it becomes an MCPServer (a program, in an image) or an MCPServerEntry (an address), and
/// every value of --env and --header goes into a Secret, which is deleted with it.
///
/// For programs (-o json) the result has `file`, `created`, `backend`, `secrets` (variables in `.env`) and
/// `notes`; with --kubernetes `kind`, `name`, `namespace` and `secret`. A failure has `error`, `remedy` and
/// `exitCode`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp add time -- uvx mcp-server-time
  vmcp add github https://api.githubcopilot.com/mcp/ --header \"Authorization: Bearer $TOKEN\"
  vmcp add db --env DATABASE_URI=postgresql://me:secret@localhost/x -- npx -y some-server
  vmcp add search --kubernetes --image node:22-alpine --env API_KEY=\"$API_KEY\" -- npx -y some-server")]
pub(in crate::cli) struct Arguments {
    /// Name of the backend, which is also the prefix of its tools
    name: String,
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
    backend: &'a str,
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
    if cluster.kubernetes {
        return kubernetes::add(&name, server, &cluster, in_cluster, format, global);
    }
    if !is_backend_name(&name) {
        return Err(CommandFailure::new(format!("`{name}` is not a backend name"))
            .exit(Exit::Usage)
            .remedy("use lower-case letters, digits, `-`, `_` and `.`, at most 63"));
    }
    let path = config_edit::file_for_new_servers(global)?;
    let _lock = EditLock::wait(&path);
    let is_new = !path.exists();
    let text = config_edit::read_or_first_lines(&path)?;
    let variables = KnownVariables::of(&path, &text);
    let is_taken = |variable: &str, value: &str| variables.used_by_others(&name, variable, value);
    let imported = server.import(&name, Some(&is_taken))?;
    // Secrets are named where they are written.
    for note in imported.notes.iter().filter(|note| !note.contains("is expected in the environment variable"))
    {
        notes::note(&format!("note: {note}"));
    }
    config_edit::append(&path, &imported, OnMistake::Refuse, global)?;
    let made = if is_new { ", which is new" } else { "" };
    notes::note(&format!("added {name} to {}{made}; `vmcp backends` shows its state", path.display()));
    if let Ok(file) = global.load_file(&path) {
        needed_programs::note_missing(&file.config, Some(&imported.backends));
    }
    let result = Added {
        file: path.display().to_string(),
        created: is_new,
        backend: &name,
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
            &["Old One", "--", "notes-mcp"],
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
