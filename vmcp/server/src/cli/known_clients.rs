//! Places of the configuration of known clients: of the project, of the user.

use std::env;
use std::path::{Path, PathBuf};

use crate::cli::console::failure::{CommandFailure, Exit};

/// Files of each client; `~` is the home folder, other relative paths are of the project.
const CLIENTS: [(&str, &[&str]); 10] = [
    ("claude", &[".mcp.json", "~/.claude.json"]),
    (
        "claude-desktop",
        &[
            "~/.config/Claude/claude_desktop_config.json",
            "~/Library/Application Support/Claude/claude_desktop_config.json",
            "~/AppData/Roaming/Claude/claude_desktop_config.json",
        ],
    ),
    ("codex", &[".codex/config.toml", "~/.codex/config.toml"]),
    ("cursor", &[".cursor/mcp.json", "~/.cursor/mcp.json"]),
    ("gemini", &[".gemini/settings.json", "~/.gemini/settings.json"]),
    ("goose", &["~/.config/goose/config.yaml"]),
    ("opencode", &["opencode.json", "opencode.jsonc", "~/.config/opencode/opencode.json"]),
    (
        "vscode",
        &[
            ".vscode/mcp.json",
            "~/.config/Code/User/mcp.json",
            "~/Library/Application Support/Code/User/mcp.json",
            "~/AppData/Roaming/Code/User/mcp.json",
        ],
    ),
    ("windsurf", &["~/.codeium/windsurf/mcp_config.json"]),
    ("zed", &[".zed/settings.json", "~/.config/zed/settings.json"]),
];

/// Returns the files that `from` means: a file itself, or those of a known client that exist.
pub(super) fn files(from: &str) -> Result<Vec<PathBuf>, CommandFailure> {
    let Some((_, places)) = CLIENTS.iter().find(|(name, _)| *name == from) else {
        let path = PathBuf::from(from);
        if path.exists() || from.contains(['/', '.', '\\']) {
            return Ok(vec![path]);
        }
        let known: Vec<_> = CLIENTS.iter().map(|(name, _)| *name).collect();
        return Err(CommandFailure::new(format!("`{from}` is neither a file nor a known client"))
            .exit(Exit::Usage)
            .remedy(format!("name a file, or one of {}", known.join(", "))));
    };
    let home = env::var_os("HOME").or_else(|| env::var_os("USERPROFILE")).map(PathBuf::from);
    let found: Vec<_> = resolved(places, home.as_deref()).into_iter().filter(|path| path.is_file()).collect();
    if found.is_empty() {
        return Err(CommandFailure::new(format!(
            "no configuration of {from} found (looked for {})",
            places.join(", ")
        ))
        .exit(Exit::NothingFound)
        .remedy("name its file: `vmcp init --from FILE`"));
    }
    Ok(found)
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
