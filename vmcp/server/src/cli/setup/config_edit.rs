//! Edits of the configuration file by commands: its comments stay, and its secrets go to `.env`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use vmcp_client_files::import::Imported;
use vmcp_config::edit::{self, EditError};
use vmcp_config::{Problem, Secret};

use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::options::{DEFAULT_FILE_NAME, GlobalOptions};
use crate::cli::running_server::RunningServer;
use crate::config_file::edit_lock::EditLock;
use crate::config_file::env_file::{self, Addition, OtherValue};
use crate::config_file::secret_store::replace_private;
use crate::config_file::source::ConfigInputs;

/// Begin of a file that the first server makes.
const FIRST_LINES: &str = "# Configuration of vmcp; `vmcp init -` shows every setting.\n";

/// Treatment of entries that bring mistakes into the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum OnMistake {
    /// Nothing is written.
    Refuse,
    /// The entries are written, and a note tells each mistake: one bad server of a client's file keeps no
    /// other one out.
    Note,
}

/// Returns the file that a new server goes to: the given one, one of the usual places, that of the only
/// running server; without any server, a new one in the working directory.
pub(in crate::cli) fn file_for_new_servers(global: &GlobalOptions) -> Result<PathBuf, CommandFailure> {
    global.config_or_running().or_else(|absent| {
        if RunningServer::is_any_running() {
            let message = format!("{}, and servers run with other files", absent.message());
            return Err(CommandFailure::new(message).remedy("name the file by --config FILE"));
        }
        Ok(PathBuf::from(DEFAULT_FILE_NAME))
    })
}

/// Edits the file at `path`.
pub(in crate::cli) fn edit(
    path: &Path,
    change: impl FnOnce(&str) -> Result<String, EditError>,
) -> Result<(), CommandFailure> {
    let _lock = EditLock::wait(path);
    let before = read(path)?;
    let after = changed(path, &before, change)?;
    if after == before { Ok(()) } else { write(path, &after) }
}

/// As [`edit()`], for a change that could bring mistakes into the file, such as references to a backend
/// that is gone: then nothing is written.
pub(in crate::cli) fn edit_checked(
    path: &Path,
    global: &GlobalOptions,
    change: impl FnOnce(&str) -> Result<String, EditError>,
) -> Result<(), CommandFailure> {
    let _lock = EditLock::wait(path);
    let before = read(path)?;
    let after = changed(path, &before, change)?;
    let no_secrets = BTreeMap::new();
    let found = mistakes(&after, path, &no_secrets, global);
    let known = mistakes(&before, path, &no_secrets, global);
    if let Some(mistake) = found.iter().find(|mistake| is_new(mistake, &found, &known)) {
        let message =
            format!("not changed, for it would be a mistake: {}: {}", mistake.path, mistake.message);
        return Err(CommandFailure::new(message).remedy("edit that setting first"));
    }
    write(path, &after)
}

/// Adds imported servers to the file at `path`, which is made if it is absent, and their secrets to `.env`
/// beside it. The configuration is checked first and the secrets are written first, so that each entry finds
/// its secret. Returns the mistakes that were told. The caller holds the [`EditLock`].
pub(in crate::cli) fn append(
    path: &Path,
    imported: &Imported,
    on_mistake: OnMistake,
    global: &GlobalOptions,
) -> Result<Vec<String>, CommandFailure> {
    let before = read_or_first_lines(path)?;
    let after = changed(path, &before, |text| {
        let mut text = text.to_owned();
        for name in &imported.replaced {
            text = edit::remove_entry(&text, name)?;
        }
        edit::append(&text, &imported.entries, &imported.backends)
    })?;
    let mut told = Vec::new();
    for mistake in new_mistakes(path, &before, &after, imported, global) {
        if on_mistake == OnMistake::Refuse {
            let message = format!("not added: {}: {}", mistake.path, mistake.message);
            return Err(CommandFailure::new(message).remedy(mistake.remedy));
        }
        notes::note(&format!("note: {mistake}"));
        told.push(mistake.to_string());
    }
    if imported.restricts_tools {
        notes::note("note: tool filters are not merged; write them into `aggregation.tools`");
    }
    keep_secrets(path, imported)?;
    write(path, &after)?;
    Ok(told)
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
    let addition = Addition::prepare(&env_file, &imported.variables, OtherValue::Replaced).map_err(failed)?;
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
        notes::note(&format!("note: the new value replaces the old one of {}", addition.differ.join(", ")));
    }
    Ok(())
}

/// Returns the variables to which a configuration refers by `${NAME}`.
pub(in crate::cli) fn variables_of(text: &str) -> BTreeSet<&str> {
    references_of(text).into_iter().filter(|name| vmcp_config::is_variable_name(name)).collect()
}

/// Returns the references in a configuration, without braces and defaults: `NAME`, `file:/path`,
/// `secret:NAME`. Lines of comments do not count, and `$${` is text.
pub(in crate::cli) fn references_of(text: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let mut rest = line;
        while let Some((_, after)) = rest.split_once('$') {
            rest = after.strip_prefix('$').unwrap_or(after);
            if let Some((inner, after)) = after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
                found.insert(inner.split_once(":-").map_or(inner, |(source, _)| source));
                rest = after;
            }
        }
    }
    found
}

/// Reads the configuration file; an absent one is empty but for a comment.
pub(in crate::cli) fn read_or_first_lines(path: &Path) -> Result<String, CommandFailure> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(FIRST_LINES.to_owned()),
        read => read.map_err(|error| CommandFailure::new(format!("{}: {error}", path.display()))),
    }
}

fn read(path: &Path) -> Result<String, CommandFailure> {
    std::fs::read_to_string(path).map_err(|error| CommandFailure::new(format!("{}: {error}", path.display())))
}

fn changed(
    path: &Path,
    text: &str,
    change: impl FnOnce(&str) -> Result<String, EditError>,
) -> Result<String, CommandFailure> {
    change(text).map_err(|error| {
        let exit = if matches!(error, EditError::NoBackend(_)) { Exit::NothingFound } else { Exit::Failed };
        let failure = CommandFailure::new(format!("{}: {error}", path.display())).exit(exit);
        match error {
            EditError::Taken(name) => {
                failure.remedy(format!("choose another name, or `vmcp remove {name}` first"))
            }
            _ => failure,
        }
    })
}

/// Returns the mistakes that an edit brings into the file, each with the name of the backend in its path;
/// mistakes that the file has already stay its own.
fn new_mistakes(
    path: &Path,
    before: &str,
    after: &str,
    imported: &Imported,
    global: &GlobalOptions,
) -> Vec<Problem> {
    let found = mistakes(after, path, &imported.variables, global);
    if found.is_empty() {
        return found;
    }
    let known = mistakes(before, path, &BTreeMap::new(), global);
    let names = edit::names(after).unwrap_or_default();
    let of_added = |problem: &Problem| match backend_of(&problem.path, &names) {
        Some((name, setting)) => {
            let path = if setting.is_empty() { name.to_owned() } else { format!("{name}: {setting}") };
            let is_added = imported.backends.iter().any(|added| added == name);
            is_added.then(|| Problem { path, ..problem.clone() })
        }
        None => Some(problem.clone()),
    };
    found.iter().filter(|problem| is_new(problem, &found, &known)).filter_map(of_added).collect()
}

/// Returns the mistakes in a configuration, with further variables.
fn mistakes(
    text: &str,
    path: &Path,
    further: &BTreeMap<String, Secret>,
    global: &GlobalOptions,
) -> Vec<Problem> {
    let lookup = global.reference_lookup();
    let (_, loaded) = ConfigInputs::of_text(text.to_owned(), path, &lookup, further);
    loaded.err().map(|problems| problems.list).unwrap_or_default()
}

/// True for a mistake that an edit brought in. Paths move when an entry is replaced, so that equal messages
/// are counted.
fn is_new(problem: &Problem, found: &[Problem], known: &[Problem]) -> bool {
    let count = |list: &[Problem]| list.iter().filter(|one| one.message == problem.message).count();
    count(found) > count(known)
}

/// Returns the name of the backend in the path of a problem, and the setting below it: `backends[7].url` is
/// `url` of the eighth name.
fn backend_of<'a>(path: &'a str, names: &'a [String]) -> Option<(&'a str, &'a str)> {
    let (index, setting) = path.strip_prefix("backends[")?.split_once(']')?;
    let name = names.get(index.parse::<usize>().ok()?)?;
    Some((name.as_str(), setting.strip_prefix('.').unwrap_or(setting)))
}

fn write(path: &Path, text: &str) -> Result<(), CommandFailure> {
    replace_private(path, text).map_err(|error| CommandFailure::new(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_to_variables_are_found_and_those_to_files_are_not() {
        let text =
            "a: ${A} ${B:-x}\nb: Bearer $$${C}\nc: ${file:/d} ${secret:E} $${\n  # d: ${D}\ne: $${F}\n";
        assert_eq!(variables_of(text), BTreeSet::from(["A", "B", "C"]));
        assert_eq!(references_of(text), BTreeSet::from(["A", "B", "C", "file:/d", "secret:E"]));
    }

    fn server(name: &str, entry: &serde_json::Value) -> Imported {
        let file = serde_json::json!({ "mcpServers": { name: entry } });
        vmcp_client_files::import::import(&file.to_string(), "test").unwrap()
    }

    fn remote(token: &str) -> Imported {
        let headers = serde_json::json!({ "Authorization": format!("Bearer {token}") });
        server("gh", &serde_json::json!({ "url": "https://gh.example/mcp", "headers": headers }))
    }

    #[test]
    fn the_first_server_makes_the_file_and_a_rotated_secret_replaces_the_old() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmcp.yaml");
        let global = GlobalOptions::of_file(Some(path.clone()));
        let secrets = || std::fs::read_to_string(folder.path().join(".env")).unwrap();
        append(&path, &remote("0123456789-old"), OnMistake::Refuse, &global).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(FIRST_LINES) && text.contains("Bearer ${GH_TOKEN}"), "{text}");
        assert!(!text.contains("time"), "an example that nobody asked for: {text}");
        assert_eq!(secrets(), "GH_TOKEN=0123456789-old\n");
        let taken = append(&path, &remote("0123456789-new"), OnMistake::Refuse, &global).unwrap_err();
        assert!(taken.remedy_text().unwrap().contains("`vmcp remove gh`"), "{}", taken.message());
        assert_eq!(secrets(), "GH_TOKEN=0123456789-old\n", "nothing is written for a refused entry");
        edit(&path, |text| edit::remove(text, "gh")).unwrap();
        append(&path, &remote("0123456789-new"), OnMistake::Refuse, &global).unwrap();
        assert_eq!(secrets(), "GH_TOKEN=0123456789-new\n");
    }

    #[test]
    fn an_entry_that_would_be_a_mistake_is_refused_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmcp.yaml");
        let global = GlobalOptions::of_file(Some(path.clone()));
        for url in ["ftp://a", "localhost:3000/mcp"] {
            let bad = server("x2", &serde_json::json!({ "url": url }));
            let refused = append(&path, &bad, OnMistake::Refuse, &global);
            let failure = refused.unwrap_err();
            assert!(failure.message().contains("x2: url: "), "{url}: {}", failure.message());
            assert!(!path.exists(), "{url}");
        }
        // A mistake elsewhere in the file allows the addition of a server.
        std::fs::write(&path, "proxy: { maxToolTimeout: soon }\nbackends: []\n").unwrap();
        let good = server("ok", &serde_json::json!({ "command": "ok" }));
        append(&path, &good, OnMistake::Refuse, &global).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains("- name: ok"));
    }

    #[test]
    fn a_backend_that_other_settings_name_is_removed_with_its_rules_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmcp.yaml");
        let global = GlobalOptions::of_file(Some(path.clone()));
        let backends = "backends:\n- name: a\n  command: [a]\n- name: b\n  command: [b]\naggregation:\n";
        let flow = format!("{backends}  tools: [{{ workload: a, filter: [x] }}]\n");
        std::fs::write(&path, &flow).unwrap();
        let remove = |name: &str| edit_checked(&path, &global, |text| edit::remove(text, name));
        let refused = remove("a").unwrap_err();
        assert!(refused.message().contains("aggregation.tools[0].workload"), "{}", refused.message());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), flow, "nothing is written");
        remove("b").unwrap();
        std::fs::write(&path, format!("{backends}  tools:\n  - workload: a\n    filter: [x]\n")).unwrap();
        remove("a").unwrap();
        let after = std::fs::read_to_string(&path).unwrap();
        assert!(global.load_file(&path).is_ok() && !after.contains("workload"), "{after}");
    }

    #[test]
    fn one_bad_server_of_a_merge_keeps_no_other_one_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmcp.yaml");
        let global = GlobalOptions::of_file(Some(path.clone()));
        let before = "backends:\n- name: old\n  url: ftp://a\n";
        std::fs::write(&path, before).unwrap();
        let file =
            serde_json::json!({ "mcpServers": { "good": { "command": "x" }, "bad": { "url": "ftp://a" } } });
        let imported = vmcp_client_files::import::import(&file.to_string(), "test").unwrap();
        append(&path, &imported, OnMistake::Note, &global).unwrap();
        let after = std::fs::read_to_string(&path).unwrap();
        assert_eq!(edit::names(&after).unwrap(), ["old", "good", "bad"]);
        let mistakes = new_mistakes(&path, before, &after, &imported, &global);
        let paths: Vec<_> = mistakes.iter().map(|mistake| mistake.path.as_str()).collect();
        assert_eq!(paths, ["bad: url"], "the mistake of `old` is not new");
    }
}
