//! Places where clients' files keep servers.

use serde_json::Value;

/// Places of a map of servers, by JSON pointer: Claude, Cursor, Windsurf, Gemini, Cline, Roo, Kiro, Copilot
/// CLI, LM Studio, Continue; Amp; VS Code; Codex; Zed; Goose; opencode.
pub const PLACES: [&str; 8] = [
    "/mcpServers",
    "/amp.mcpServers",
    "/servers",
    "/mcp/servers",
    "/mcp_servers",
    "/context_servers",
    "/extensions",
    "/mcp",
];

/// A server of a file, with its name.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::import) struct FoundServer<'a> {
    pub(in crate::import) name: &'a str,
    pub(in crate::import) server: &'a Value,
    /// Folder of the project that has the server to itself: the default scope of Claude Code.
    pub(in crate::import) project: Option<&'a str>,
}

/// Returns the servers of a file in its order, with malformed entries, so that they can be named. A file
/// may be one server alone.
pub(in crate::import) fn servers(file: &Value) -> Vec<FoundServer<'_>> {
    let places: Vec<_> = PLACES.iter().map(|place| all(file.pointer(place), None)).collect();
    let has_server = |all: &&Vec<FoundServer<'_>>| all.iter().any(|found| found.server.is_object());
    let is_odd = |all: &&Vec<FoundServer<'_>>| all.iter().any(|found| !is_setting(found.server));
    let shared = places.iter().find(has_server).or_else(|| places.iter().find(is_odd));
    let mut found: Vec<FoundServer<'_>> = shared.cloned().unwrap_or_default();
    for (folder, project) in file.get("projects").and_then(Value::as_object).into_iter().flatten() {
        found.extend(all(project.get("mcpServers"), Some(folder.as_str())));
    }
    if found.is_empty() && ["command", "url"].iter().any(|key| file.get(key).is_some_and(Value::is_string)) {
        let name = file.get("name").and_then(Value::as_str).unwrap_or("server");
        found.push(FoundServer { name, server: file, project: None });
    }
    found
}

/// Returns the servers of a map by name, or of a list whose items have names.
fn all<'a>(place: Option<&'a Value>, project: Option<&'a str>) -> Vec<FoundServer<'a>> {
    let found = |name, server| FoundServer { name, server, project };
    match place {
        Some(Value::Object(servers)) => servers.iter().map(|(name, server)| found(name, server)).collect(),
        Some(Value::Array(servers)) => {
            let name = |server: &'a Value| server.get("name").and_then(Value::as_str).unwrap_or("server");
            servers.iter().map(|server| found(name(server), server)).collect()
        }
        _ => Vec::new(),
    }
}

/// True for a value that no client means as a server: a switch or a number beside them.
fn is_setting(value: &Value) -> bool {
    value.is_boolean() || value.is_number() || value.is_array()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::servers;

    #[test]
    fn projects_of_claude_code_are_read() {
        let (one, two) = (json!({ "command": "one" }), json!({ "command": "two" }));
        let file = json!({
            "mcpServers": { "one": one },
            "projects": { "/a": { "mcpServers": { "one": one, "two": two } }, "/b": { "mcpServers": { "one": two } } },
        });
        let found = servers(&file);
        let found: Vec<_> = found.iter().map(|found| (found.name, found.project)).collect();
        assert_eq!(found, [("one", None), ("one", Some("/a")), ("two", Some("/a")), ("one", Some("/b"))]);
    }
}
