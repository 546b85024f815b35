//! Places of the configuration of known clients: of the project, of the user.

use std::env;
use std::path::{Path, PathBuf};

use crate::cli::console::failure::{CommandFailure, Exit};
use vmcp_client_files::known_clients::{CLIENTS, SWITCHES, names};
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
        let paths = resolved(places, home().as_deref()).into_iter();
        paths.filter(|path| path.is_file()).collect::<Vec<_>>()
    };
    let mut found = present(places);
    if found.is_empty() {
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
    let home = home()?;
    let of_user: Vec<_> =
        places.iter().filter_map(|place| Some(home.join(place.strip_prefix("~/")?))).collect();
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
    let paths = known.filter(|place| !place.starts_with("~/")).map(PathBuf::from);
    paths.filter(|path| path.is_file()).collect()
}

fn home() -> Option<PathBuf> {
    folders::home_dir().or_else(|| env::var_os("USERPROFILE").map(PathBuf::from))
}

fn resolved(places: &[&str], home: Option<&Path>) -> Vec<PathBuf> {
    let resolve = |place: &&str| match place.strip_prefix("~/") {
        Some(rest) => Some(home?.join(rest)),
        None => Some(PathBuf::from(place)),
    };
    places.iter().filter_map(resolve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_the_home_folder_need_one() {
        let places = [".mcp.json", "~/.claude.json"];
        assert_eq!(resolved(&places, None), [PathBuf::from(".mcp.json")]);
        assert_eq!(resolved(&places, Some(Path::new("/me"))).last().unwrap(), Path::new("/me/.claude.json"));
    }
}
