//! Folders of a user in which clients keep their files, and the variables by which clients move them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Home folder, operating system and environment of a user.
#[derive(Clone, Copy)]
pub struct UserFolders<'a> {
    /// Home folder, if there is one.
    pub home: Option<&'a Path>,
    /// Operating system, as in [`std::env::consts::OS`].
    pub system: &'a str,
    /// Returns the value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
}

impl UserFolders<'_> {
    /// Returns the path of a place of [`CLIENTS`](super::CLIENTS), as the client itself resolves it; `None`
    /// for a place below an unknown home folder, and for an unset `$NAME`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ffi::OsString;
    /// use std::path::Path;
    /// use vmcp_client_files::known_clients::UserFolders;
    ///
    /// let variable = |name: &str| (name == "CODEX_HOME").then(|| OsString::from("/data/codex"));
    /// let folders = UserFolders { home: Some(Path::new("/me")), system: "linux", variable: &variable };
    /// let file = folders.path("codex", "~/.codex/config.toml");
    /// assert_eq!(file.as_deref(), Some(Path::new("/data/codex/config.toml")));
    /// ```
    pub fn path(&self, client: &str, place: &str) -> Option<PathBuf> {
        if let Some(variable) = place.strip_prefix('$') {
            return self.value(variable);
        }
        let Some(below) = place.strip_prefix("~/") else { return Some(PathBuf::from(place)) };
        self.moved(client, place).or_else(|| Some(self.home?.join(below)))
    }

    fn moved(&self, client: &str, place: &str) -> Option<PathBuf> {
        MOVED.iter().filter(|moved| moved.is_of(client, self.system)).find_map(|moved| {
            let rest = place.strip_prefix(moved.place)?;
            if !rest.is_empty() && !rest.starts_with('/') {
                return None;
            }
            let mut path = self.value(moved.variable)?;
            if moved.needs_absolute && path.is_relative() {
                return None;
            }
            // An empty part would add a slash, with which a file is taken for a folder.
            path.extend(
                [moved.below, rest.trim_start_matches('/')].into_iter().filter(|part| !part.is_empty()),
            );
            Some(path)
        })
    }

    /// Returns the path in a variable; an empty one counts as not set.
    fn value(&self, variable: &str) -> Option<PathBuf> {
        (self.variable)(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
    }
}

/// A place that a variable moves.
struct MovedPlace {
    clients: &'static [&'static str],
    /// Operating systems on which the clients follow the variable; none: all.
    systems: &'static [&'static str],
    variable: &'static str,
    /// File or folder that moves.
    place: &'static str,
    /// Path below the value of the variable; empty for the value itself.
    below: &'static str,
    /// True if the clients leave a relative value out.
    needs_absolute: bool,
}

impl MovedPlace {
    /// A variable of the client's own.
    const fn of_client(
        client: &'static [&'static str],
        variable: &'static str,
        place: &'static str,
        below: &'static str,
    ) -> MovedPlace {
        MovedPlace { clients: client, systems: &[], variable, place, below, needs_absolute: false }
    }

    /// A variable of the platform, of absolute paths alone.
    const fn of_platform(
        clients: &'static [&'static str],
        systems: &'static [&'static str],
        variable: &'static str,
        place: &'static str,
    ) -> MovedPlace {
        MovedPlace { clients, systems, variable, place, below: "", needs_absolute: true }
    }

    fn is_of(&self, client: &str, system: &str) -> bool {
        self.clients.contains(&client) && (self.systems.is_empty() || self.systems.contains(&system))
    }
}

/// Clients on Electron, whose `appData` is the XDG folder on Linux and `%APPDATA%` on Windows.
const ELECTRON: &[&str] = &["claude-desktop", "cline", "roo", "vscode", "vscode-insiders", "vscodium"];

/// Moved places; the first one whose variable is set counts.
const MOVED: [MovedPlace; 12] = [
    MovedPlace::of_client(&["amp"], "AMP_SETTINGS_FILE", "~/.config/amp/settings.json", ""),
    MovedPlace::of_client(&["claude"], "CLAUDE_CONFIG_DIR", "~/.claude.json", ".claude.json"),
    MovedPlace::of_client(&["claude"], "CLAUDE_CONFIG_DIR", "~/.claude", ""),
    MovedPlace::of_client(&["codex"], "CODEX_HOME", "~/.codex", ""),
    MovedPlace::of_client(&["continue"], "CONTINUE_GLOBAL_DIR", "~/.continue", ""),
    MovedPlace::of_client(&["copilot-cli"], "COPILOT_HOME", "~/.copilot", ""),
    MovedPlace::of_client(&["gemini"], "GEMINI_CLI_HOME", "~/.gemini", ".gemini"),
    MovedPlace {
        clients: &["goose"],
        systems: &[],
        variable: "GOOSE_PATH_ROOT",
        place: "~/.config/goose",
        below: "config",
        needs_absolute: true,
    },
    MovedPlace::of_platform(&["goose", "opencode"], &[], "XDG_CONFIG_HOME", "~/.config"),
    MovedPlace::of_platform(&["zed"], &["linux"], "XDG_CONFIG_HOME", "~/.config"),
    MovedPlace::of_platform(ELECTRON, &["linux"], "XDG_CONFIG_HOME", "~/.config"),
    MovedPlace::of_platform(ELECTRON, &["windows"], "APPDATA", "~/AppData/Roaming"),
];
