//! Places of the configuration of known clients: of the project, of the user.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;

use crate::cli::console::failure::{CommandFailure, Exit};
use vmcp_client_files::known_clients::{CLIENTS, SWITCHES, UserFolders, is_folder, is_of_project, names};
use vmcp_engine::folders;

/// Returns the files that `from` means: a file itself, or those of a known client that exist.
pub(in crate::cli) fn files(from: &str) -> Result<Vec<PathBuf>, CommandFailure> {
    let Some((_, places)) = CLIENTS.iter().find(|(name, _)| *name == from) else {
        let path = PathBuf::from(from);
        if path.exists() || from.contains(['/', '.', '\\']) {
            return Ok(vec![path]);
        }
        let known: Vec<_> = names().collect();
        return Err(CommandFailure::new(format!("`{from}` is neither a file nor a known client"))
            .exit(Exit::Usage)
            .remedy(format!("name a file, or one of {}", known.join(", "))));
    };
    let present = |places: &[&str]| {
        let paths = places.iter().filter_map(|place| Some(files_at(place, resolved(from, place)?)));
        paths.flatten().collect::<Vec<_>>()
    };
    let mut found = present(places);
    if found.is_empty() {
        let shown = |place: &&str| match resolved(from, place) {
            Some(path) => path.display().to_string(),
            None => (*place).to_owned(),
        };
        let places: Vec<_> = places.iter().map(shown).collect();
        return Err(CommandFailure::new(format!(
            "no configuration of {from} found (looked for {})",
            places.join(", ")
        ))
        .exit(Exit::NothingFound)
        .remedy("name its file: `vmcp init --from FILE`"));
    }
    for (_, switches) in SWITCHES.iter().filter(|(name, _)| *name == from) {
        found.extend(present(switches));
    }
    Ok(found)
}

/// Returns the file of the user in which `client` keeps its servers: the first that exists, else the one of
/// this operating system. `None` for an unknown client or without a home folder.
pub(in crate::cli) fn user_file(client: &str) -> Option<PathBuf> {
    let (_, places) = CLIENTS.iter().find(|(name, _)| *name == client)?;
    let of_user = places.iter().filter(|place| place.starts_with("~/") && !is_folder(place));
    let of_user: Vec<_> = of_user.filter_map(|place| resolved(client, place)).collect();
    let usual = match of_user.len() {
        3 if cfg!(target_os = "macos") => 1,
        3 if cfg!(windows) => 2,
        _ => 0,
    };
    of_user.iter().find(|path| path.is_file()).or_else(|| of_user.get(usual)).cloned()
}

/// Returns the files of the project, below the working directory, in which `client` has servers.
pub(in crate::cli) fn project_files(client: &str) -> Vec<PathBuf> {
    let known = CLIENTS.iter().filter(|(name, _)| *name == client).flat_map(|(_, places)| places.iter());
    known.filter(|place| is_of_project(place)).flat_map(|place| files_at(place, place.into())).collect()
}

/// Returns the file at `path`; for a place that is a folder, its files, by name.
fn files_at(place: &str, path: PathBuf) -> Vec<PathBuf> {
    if !is_folder(place) {
        return path.is_file().then_some(path).into_iter().collect();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let has_servers = |path: &PathBuf| {
        let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        matches!(extension, "yaml" | "yml" | "json") && path.is_file()
    };
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(has_servers).collect();
    files.sort();
    files
}

/// Returns the path of a client's place, which an environment variable may move.
pub(in crate::cli) fn resolved(client: &str, place: &str) -> Option<PathBuf> {
    let home = folders::home_dir().or_else(|| variable("USERPROFILE").map(PathBuf::from));
    let folders = UserFolders { home: home.as_deref(), system: env::consts::OS, variable: &variable };
    folders.path(client, place)
}

fn variable(name: &str) -> Option<OsString> {
    env::var_os(name)
}
