//! Places of clients' files follow the variables that the clients document.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use vmcp_client_files::import::{ClientText, Surroundings, import_files};
use vmcp_client_files::known_clients::{CLIENTS, SWITCHES, UserFolders, is_of_project};

/// Resolves a place with one variable set.
fn path(client: &str, place: &str, system: &str, name: &str, value: &str) -> Option<PathBuf> {
    let variable = |asked: &str| (asked == name).then(|| OsString::from(value));
    UserFolders { home: Some(Path::new("/me")), system, variable: &variable }.path(client, place)
}

/// Returns the places of a client, with those of its switches.
fn places(client: &str) -> Vec<&'static str> {
    let known = CLIENTS.iter().chain(&SWITCHES).filter(|(name, _)| *name == client);
    known.flat_map(|(_, places)| places.iter().copied()).collect()
}

#[test]
fn every_documented_variable_moves_its_clients_files() {
    for (client, place, variable, expected) in [
        ("amp", "~/.config/amp/settings.json", "AMP_SETTINGS_FILE", "/x"),
        ("claude", "~/.claude.json", "CLAUDE_CONFIG_DIR", "/x/.claude.json"),
        ("claude", "~/.claude/settings.json", "CLAUDE_CONFIG_DIR", "/x/settings.json"),
        (
            "claude-desktop",
            "~/.config/Claude/claude_desktop_config.json",
            "XDG_CONFIG_HOME",
            "/x/Claude/claude_desktop_config.json",
        ),
        ("codex", "~/.codex/config.toml", "CODEX_HOME", "/x/config.toml"),
        ("codex", "~/.codex/hooks.json", "CODEX_HOME", "/x/hooks.json"),
        ("continue", "~/.continue/config.yaml", "CONTINUE_GLOBAL_DIR", "/x/config.yaml"),
        ("continue", "~/.continue/mcpServers/", "CONTINUE_GLOBAL_DIR", "/x/mcpServers"),
        ("copilot-cli", "~/.copilot/mcp-config.json", "COPILOT_HOME", "/x/mcp-config.json"),
        ("gemini", "~/.gemini/settings.json", "GEMINI_CLI_HOME", "/x/.gemini/settings.json"),
        ("goose", "~/.config/goose/config.yaml", "GOOSE_PATH_ROOT", "/x/config/config.yaml"),
        ("goose", "~/.config/goose/config.yaml", "XDG_CONFIG_HOME", "/x/goose/config.yaml"),
        ("opencode", "~/.config/opencode/opencode.json", "XDG_CONFIG_HOME", "/x/opencode/opencode.json"),
        ("opencode", "$OPENCODE_CONFIG", "OPENCODE_CONFIG", "/x"),
        ("vscode", "~/.config/Code/User/mcp.json", "XDG_CONFIG_HOME", "/x/Code/User/mcp.json"),
        ("vscodium", "~/.config/VSCodium/User/mcp.json", "XDG_CONFIG_HOME", "/x/VSCodium/User/mcp.json"),
        ("zed", "~/.config/zed/settings.json", "XDG_CONFIG_HOME", "/x/zed/settings.json"),
    ] {
        let is_known = client == "codex" || places(client).contains(&place);
        assert!(is_known, "{client}: {place} is not one of its places");
        assert_eq!(path(client, place, "linux", variable, "/x"), Some(PathBuf::from(expected)), "{variable}");
        // An empty variable is not set, and a variable of one client moves no other client's file.
        let usual = place.strip_prefix("~/").map(|below| Path::new("/me").join(below));
        assert_eq!(path(client, place, "linux", variable, ""), usual, "{variable}");
        if place.starts_with("~/") {
            assert_eq!(path("cursor", place, "linux", variable, "/x"), usual, "{variable}");
        }
    }
}

#[test]
fn a_variable_of_one_system_moves_nothing_on_another() {
    let vscode = "~/.config/Code/User/mcp.json";
    let usual = Some(PathBuf::from("/me/.config/Code/User/mcp.json"));
    assert_eq!(path("vscode", vscode, "macos", "XDG_CONFIG_HOME", "/x"), usual);
    let roaming = "~/AppData/Roaming/Code/User/mcp.json";
    let moved = Some(PathBuf::from("/x/Code/User/mcp.json"));
    assert_eq!(path("vscode", roaming, "windows", "APPDATA", "/x"), moved);
    assert_ne!(path("vscode", roaming, "linux", "APPDATA", "/x"), moved);
    // opencode has the folder of XDG on every system.
    let opencode = path("opencode", "~/.config/opencode/opencode.json", "macos", "XDG_CONFIG_HOME", "/x");
    assert_eq!(opencode, Some(PathBuf::from("/x/opencode/opencode.json")));
}

#[test]
fn a_relative_folder_counts_where_the_client_takes_it() {
    let codex = path("codex", "~/.codex/config.toml", "linux", "CODEX_HOME", "here");
    assert_eq!(codex, Some(PathBuf::from("here/config.toml")));
    for variable in ["GOOSE_PATH_ROOT", "XDG_CONFIG_HOME"] {
        let goose = path("goose", "~/.config/goose/config.yaml", "linux", variable, "here");
        assert_eq!(goose, Some(PathBuf::from("/me/.config/goose/config.yaml")), "{variable}");
    }
}

#[test]
fn a_moved_place_needs_no_home() {
    let variable = |name: &str| (name == "CODEX_HOME").then(|| OsString::from("/x"));
    let folders = UserFolders { home: None, system: "linux", variable: &variable };
    assert_eq!(folders.path("codex", "~/.codex/config.toml"), Some(PathBuf::from("/x/config.toml")));
    assert_eq!(folders.path("cursor", "~/.cursor/mcp.json"), None);
    assert_eq!(folders.path("opencode", "$OPENCODE_CONFIG"), None);
    assert_eq!(folders.path("cursor", ".cursor/mcp.json"), Some(PathBuf::from(".cursor/mcp.json")));
    for place in CLIENTS.iter().flat_map(|(_, places)| places.iter()) {
        assert_eq!(is_of_project(place), !place.starts_with(['~', '$']), "{place}");
    }
}

#[test]
fn a_file_that_a_variable_names_is_read_in_its_clients_dialect() {
    let text = r#"{ "mcp": { "f": { "type": "remote", "url": "https://f.example",
        "headers": { "Authorization": "Bearer {file:~/.secrets/f}" } } } }"#;
    let read = |client| {
        let file = ClientText { name: "/me/custom.json", text, folder: Some(Path::new("/me")), client };
        let surroundings = Surroundings { home: Some(Path::new("/me")), ..Surroundings::default() };
        import_files(&[file], &surroundings).unwrap().yaml
    };
    assert!(read(Some("opencode")).contains("Bearer ${file:/me/.secrets/f}"));
    // A file of an unknown client must not have its reader's files sent to a server.
    assert!(!read(None).contains("${file:"));
}
