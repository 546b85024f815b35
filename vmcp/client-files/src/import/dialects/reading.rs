//! Circumstances of a file: the client that wrote it, by its path or its keys, and its folders.

use std::path::Path;

use serde_json::Value;

use super::places::servers;

/// Circumstances of a file that decide how its servers are read.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::import) struct Reading<'a> {
    /// True for a file of Gemini, whose texts refer to variables by `$NAME`.
    pub(in crate::import) is_gemini: bool,
    /// True for a file of opencode. Its texts alone may refer to files: a file of another client, such as
    /// `.mcp.json` of a stranger's repository, must not have its reader's files sent to a server.
    pub(in crate::import) is_opencode: bool,
    /// True for a file of Cline, Roo or Goose, whose `timeout` is in seconds, however long.
    pub(in crate::import) counts_seconds: bool,
    /// Home folder, for `~/` in a path.
    pub(in crate::import) home: Option<&'a Path>,
    /// Folder of the file, for relative paths.
    pub(in crate::import) folder: Option<&'a Path>,
}

/// Returns true for a file of opencode, by its name.
pub(in crate::import) fn is_opencode(name: &str) -> bool {
    let file = name.rsplit(['/', '\\']).next().unwrap_or_default();
    matches!(file, "opencode.json" | "opencode.jsonc")
}

/// Returns true for a file of Cline, Roo or Goose, by its path.
pub(in crate::import) fn counts_seconds(name: &str) -> bool {
    let mut parts = name.rsplit(['/', '\\']);
    let (file, folder) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    matches!(file, "cline_mcp_settings.json" | "mcp_settings.json")
        || folder == ".roo"
        || (folder, file) == ("goose", "config.yaml")
}

/// Returns true for a file of Gemini, by its path or by its own keys.
pub(in crate::import) fn is_gemini(name: &str, file: &Value) -> bool {
    let folder = |part: &str| part == ".gemini";
    name.split(['/', '\\']).any(folder)
        || servers(file).iter().any(|found| found.server.get("httpUrl").is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{counts_seconds, is_gemini};

    #[test]
    fn files_with_seconds_are_known_by_their_path() {
        for name in [
            "/me/settings/cline_mcp_settings.json",
            "mcp_settings.json",
            ".roo/mcp.json",
            "/c/goose/config.yaml",
        ] {
            assert!(counts_seconds(name), "{name}");
        }
        for name in [".mcp.json", "/me/.gemini/settings.json", "config.yaml", "/me/goose/.mcp.json"] {
            assert!(!counts_seconds(name), "{name}");
        }
    }

    #[test]
    fn gemini_is_known_by_its_folder_and_its_keys() {
        let plain = json!({ "mcpServers": { "a": { "url": "https://a" } } });
        let own = json!({ "mcpServers": { "a": { "httpUrl": "https://a" } } });
        assert!(is_gemini("/me/.gemini/settings.json", &plain) && is_gemini("x.json", &own));
        assert!(!is_gemini(".mcp.json", &plain));
    }
}
