//! Dialects of other clients: the places where their files keep servers, and one set of keys for all.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Places of a map of servers, by JSON pointer: Claude, Cursor, Windsurf, Gemini; VS Code; Codex; Zed; Goose;
/// opencode.
const PLACES: [&str; 7] =
    ["/mcpServers", "/servers", "/mcp/servers", "/mcp_servers", "/context_servers", "/extensions", "/mcp"];
/// Keys of other dialects, and the key of [`Server`] that means the same.
const SYNONYMS: [(&str, &str); 14] = [
    ("httpUrl", "url"),
    ("serverUrl", "url"),
    ("uri", "url"),
    ("cmd", "command"),
    ("envs", "env"),
    ("environment", "env"),
    ("http_headers", "headers"),
    ("includeTools", "only"),
    ("enabled_tools", "only"),
    ("available_tools", "only"),
    ("excludeTools", "without"),
    ("disabledTools", "without"),
    ("disabled_tools", "without"),
    ("tool_timeout_sec", "timeout"),
];
/// Numbers from here on are milliseconds, as Claude and Gemini write time limits; Codex and Goose write
/// seconds.
const FIRST_MILLISECONDS: f64 = 1_000.0;

/// One server of another client's file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Server {
    pub(super) command: Option<String>,
    pub(super) args: Vec<String>,
    pub(super) env: BTreeMap<String, Value>,
    pub(super) cwd: Option<String>,
    #[serde(rename = "type", alias = "transport")]
    pub(super) kind: Option<String>,
    pub(super) url: Option<String>,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) disabled: bool,
    pub(super) timeout: Option<f64>,
    /// The only tools that the client uses.
    pub(super) only: Vec<String>,
    /// Tools that the client does not use.
    pub(super) without: Vec<String>,
    #[serde(flatten)]
    pub(super) others: Map<String, Value>,
}

impl Server {
    /// Time limit of a call, in seconds.
    pub(super) fn timeout_seconds(&self) -> Option<f64> {
        let timeout = self.timeout.filter(|timeout| timeout.is_finite() && *timeout > 0.0)?;
        Some(if timeout < FIRST_MILLISECONDS { timeout } else { timeout / 1_000.0 })
    }
}

/// A server of a file, with its name.
#[derive(Debug, PartialEq)]
pub(super) struct FoundServer<'a> {
    pub(super) name: &'a str,
    pub(super) server: &'a Value,
    /// Folder of the project that has the server to itself: the default scope of Claude Code.
    pub(super) project: Option<&'a str>,
}

/// Returns the servers of a file in its order.
pub(super) fn servers(file: &Value) -> Vec<FoundServer<'_>> {
    let shared = PLACES.iter().map(|place| all(file.pointer(place), None)).find(|all| !all.is_empty());
    let mut found = shared.unwrap_or_default();
    for (folder, project) in file.get("projects").and_then(Value::as_object).into_iter().flatten() {
        found.extend(all(project.get("mcpServers"), Some(folder.as_str())));
    }
    found
}

fn all<'a>(place: Option<&'a Value>, project: Option<&'a str>) -> Vec<FoundServer<'a>> {
    let servers = place.and_then(Value::as_object).into_iter().flatten();
    let servers = servers.filter(|(_, server)| server.is_object());
    servers.map(|(name, server)| FoundServer { name, server, project }).collect()
}

/// Reads a server of any dialect.
pub(super) fn read(server: &Value) -> Result<Server, String> {
    let mut keys = server.as_object().cloned().ok_or("it is no object")?;
    if matches!(keys.get("type").and_then(Value::as_str), Some("local" | "remote")) {
        opencode(&mut keys);
    }
    if let Some(inner @ Value::Object(_)) = keys.get("command").cloned() {
        // Zed: `command: { path, args, env }`.
        keys.remove("command");
        for (key, value) in inner.as_object().into_iter().flatten() {
            keys.insert(if key == "path" { "command" } else { key }.to_owned(), value.clone());
        }
    }
    if keys.contains_key("type") {
        keys.remove("transport");
    }
    for (theirs, ours) in SYNONYMS {
        if let Some(value) = keys.remove(theirs) {
            keys.entry(ours).or_insert(value);
        }
    }
    if let Some(Value::Array(words)) = keys.get("command").cloned() {
        let mut words = words.into_iter();
        keys.insert("command".to_owned(), words.next().unwrap_or(Value::Null));
        let others = keys.remove("args").and_then(|args| args.as_array().cloned()).unwrap_or_default();
        keys.insert("args".to_owned(), words.chain(others).collect());
    }
    if let Some(Value::Bool(enabled)) = keys.remove("enabled") {
        keys.entry("disabled").or_insert(json!(!enabled));
    }
    variables(&mut keys);
    keys.retain(|_, value| !value.is_null());
    serde_json::from_value(Value::Object(keys)).map_err(|error| error.to_string())
}

/// Turns settings that name environment variables (Codex, Goose) into references to them.
fn variables(keys: &mut Map<String, Value>) {
    let mut references: Vec<(&str, String, String)> = Vec::new();
    if let Some(Value::String(name)) = keys.remove("bearer_token_env_var") {
        references.push(("headers", "Authorization".to_owned(), format!("Bearer ${{{name}}}")));
    }
    if let Some(Value::Object(headers)) = keys.remove("env_http_headers") {
        let named = |(header, name): (String, Value)| Some((header, format!("${{{}}}", name.as_str()?)));
        references.extend(headers.into_iter().filter_map(named).map(|(key, value)| ("headers", key, value)));
    }
    for key in ["env_keys", "env_vars"] {
        let Some(Value::Array(names)) = keys.remove(key) else { continue };
        for name in names.iter().filter_map(Value::as_str) {
            references.push(("env", name.to_owned(), format!("${{{name}}}")));
        }
    }
    for (map, key, value) in references {
        if let Some(map) = keys.entry(map).or_insert_with(|| json!({})).as_object_mut() {
            map.entry(key).or_insert(value.into());
        }
    }
}

/// Translates the words of opencode: its types, and `{env:NAME}` for a variable.
fn opencode(keys: &mut Map<String, Value>) {
    let translated = Value::Object(std::mem::take(keys)).to_string().replace("{env:", "${env:");
    if let Ok(Value::Object(map)) = serde_json::from_str(&translated) {
        *keys = map;
    }
    keys.remove("type");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_becomes_the_same_server() {
        for dialect in [
            json!({ "command": "npx", "args": ["-y", "x"], "env": { "A": "1" } }),
            json!({ "command": ["npx", "-y", "x"], "environment": { "A": "1" }, "type": "local" }),
            json!({ "command": { "path": "npx", "args": ["-y", "x"], "env": { "A": "1" } } }),
            json!({ "cmd": "npx", "args": ["-y", "x"], "envs": { "A": "1" }, "enabled": true }),
        ] {
            let server = read(&dialect).unwrap();
            assert_eq!((server.command.as_deref(), server.args.len()), (Some("npx"), 2), "{dialect}");
            assert_eq!((server.env["A"].as_str(), server.disabled), (Some("1"), false), "{dialect}");
        }
        let codex =
            json!({ "url": "https://a", "bearer_token_env_var": "T", "env_http_headers": { "X": "Y" } });
        let headers = read(&codex).unwrap().headers;
        assert_eq!((&*headers["Authorization"], &*headers["X"]), ("Bearer ${T}", "${Y}"));
        let remote = json!({ "type": "remote", "url": "https://a", "headers": { "X": "{env:Y}" } });
        assert_eq!(read(&remote).unwrap().headers["X"], "${env:Y}");
    }

    #[test]
    fn limits_and_tools_are_read() {
        let server = json!({ "httpUrl": "https://a", "timeout": 30_000, "includeTools": ["a"], "disabledTools": ["b"] });
        let server = read(&server).unwrap();
        assert_eq!((server.timeout_seconds(), server.url.as_deref()), (Some(30.0), Some("https://a")));
        assert_eq!((&*server.only, &*server.without), (&["a".to_owned()][..], &["b".to_owned()][..]));
        assert_eq!(read(&json!({ "cmd": "x", "timeout": 300 })).unwrap().timeout_seconds(), Some(300.0));
    }

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
