//! Known clients, and the places of their configuration.

mod user_folders;

pub use self::user_folders::UserFolders;

/// Files of each client: `~` is the home folder, unless a variable moves the place ([`UserFolders`]);
/// `$NAME` is the file that a variable names; other relative paths are of the project. A place that ends
/// with `/` is a folder of files ([`is_folder`]).
pub const CLIENTS: [(&str, &[&str]); 19] = [
    ("amp", &[".amp/settings.json", "~/.config/amp/settings.json"]),
    ("claude", &[".mcp.json", "~/.claude.json"]),
    (
        "claude-desktop",
        &[
            "~/.config/Claude/claude_desktop_config.json",
            "~/Library/Application Support/Claude/claude_desktop_config.json",
            "~/AppData/Roaming/Claude/claude_desktop_config.json",
        ],
    ),
    (
        "cline",
        &[
            "~/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            "~/Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            "~/AppData/Roaming/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        ],
    ),
    ("codex", &[".codex/config.toml", "~/.codex/config.toml"]),
    ("continue", &["~/.continue/config.yaml", ".continue/mcpServers/", "~/.continue/mcpServers/"]),
    ("copilot-cli", &["~/.copilot/mcp-config.json"]),
    ("cursor", &[".cursor/mcp.json", "~/.cursor/mcp.json"]),
    ("gemini", &[".gemini/settings.json", "~/.gemini/settings.json"]),
    ("goose", &["~/.config/goose/config.yaml"]),
    ("kiro", &[".kiro/settings/mcp.json", "~/.kiro/settings/mcp.json"]),
    ("lm-studio", &["~/.lmstudio/mcp.json", "~/.cache/lm-studio/mcp.json"]),
    (
        "opencode",
        &[
            "opencode.json",
            "opencode.jsonc",
            "~/.config/opencode/opencode.json",
            "~/.config/opencode/opencode.jsonc",
            "$OPENCODE_CONFIG",
        ],
    ),
    (
        "roo",
        &[
            ".roo/mcp.json",
            "~/.config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
            "~/Library/Application Support/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
            "~/AppData/Roaming/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
        ],
    ),
    (
        "vscode",
        &[
            ".vscode/mcp.json",
            "~/.config/Code/User/mcp.json",
            "~/Library/Application Support/Code/User/mcp.json",
            "~/AppData/Roaming/Code/User/mcp.json",
        ],
    ),
    (
        "vscode-insiders",
        &[
            ".vscode/mcp.json",
            "~/.config/Code - Insiders/User/mcp.json",
            "~/Library/Application Support/Code - Insiders/User/mcp.json",
            "~/AppData/Roaming/Code - Insiders/User/mcp.json",
        ],
    ),
    (
        "vscodium",
        &[
            ".vscode/mcp.json",
            "~/.config/VSCodium/User/mcp.json",
            "~/Library/Application Support/VSCodium/User/mcp.json",
            "~/AppData/Roaming/VSCodium/User/mcp.json",
        ],
    ),
    ("windsurf", &["~/.codeium/windsurf/mcp_config.json"]),
    ("zed", &[".zed/settings.json", "~/.config/zed/settings.json"]),
];

/// Files without servers that switch servers of a client off, by client, as in [`CLIENTS`].
pub const SWITCHES: [(&str, &[&str]); 1] =
    [("claude", &[".claude/settings.local.json", ".claude/settings.json", "~/.claude/settings.json"])];

/// Returns the names of the known clients.
pub fn names() -> impl Iterator<Item = &'static str> {
    CLIENTS.iter().map(|(name, _)| *name)
}

/// Returns true for a place that is a folder, whose files in JSON and YAML have servers: the blocks of
/// Continue.
pub fn is_folder(place: &str) -> bool {
    place.ends_with('/')
}

/// Returns true for a place of the project, below its folder.
pub fn is_of_project(place: &str) -> bool {
    !place.starts_with("~/") && !place.starts_with('$')
}
