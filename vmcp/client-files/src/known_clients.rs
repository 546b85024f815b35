//! Known clients, and the places of their configuration.

/// Files of each client; `~` is the home folder, other relative paths are of the project.
pub const CLIENTS: [(&str, &[&str]); 10] = [
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

/// Returns the names of the known clients.
pub fn names() -> impl Iterator<Item = &'static str> {
    CLIENTS.iter().map(|(name, _)| *name)
}
