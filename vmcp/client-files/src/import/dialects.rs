//! Dialects of other clients: the places where their files keep servers, and one set of keys for all.

mod pairs;
mod references;
pub(super) mod switches;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Places of a map of servers, by JSON pointer: Claude, Cursor, Windsurf, Gemini, Cline, Roo, Kiro, Copilot
/// CLI, LM Studio, Continue; Amp; VS Code; Codex; Zed; Goose; opencode.
const PLACES: [&str; 8] = [
    "/mcpServers",
    "/amp.mcpServers",
    "/servers",
    "/mcp/servers",
    "/mcp_servers",
    "/context_servers",
    "/extensions",
    "/mcp",
];
/// Keys of other dialects, and the key of [`Server`] that means the same.
const SYNONYMS: [(&str, &str); 13] = [
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
];
/// Numbers from here on are milliseconds, as Claude and Gemini write time limits. Codex names its unit, and
/// files of Cline, Roo and Goose have seconds alone ([`Reading::counts_seconds`]).
const FIRST_MILLISECONDS: f64 = 1_000.0;

/// One server of another client's file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Server {
    pub(super) command: Option<String>,
    #[serde(deserialize_with = "lenient::words")]
    pub(super) args: Vec<String>,
    pub(super) env: BTreeMap<String, Value>,
    pub(super) cwd: Option<String>,
    #[serde(rename = "type", alias = "transport")]
    pub(super) kind: Option<String>,
    pub(super) url: Option<String>,
    #[serde(deserialize_with = "lenient::texts")]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(deserialize_with = "lenient::boolean")]
    pub(super) disabled: bool,
    #[serde(deserialize_with = "lenient::number")]
    pub(super) timeout: Option<f64>,
    /// Time limit of a call, in seconds (Codex).
    #[serde(deserialize_with = "lenient::number")]
    pub(super) tool_timeout_sec: Option<f64>,
    /// Time limit of the start, in seconds (Codex).
    #[serde(deserialize_with = "lenient::number")]
    pub(super) startup_timeout_sec: Option<f64>,
    /// Time limit of the start, in milliseconds (Codex, opencode, Continue).
    #[serde(deserialize_with = "lenient::number", alias = "connectionTimeout")]
    pub(super) startup_timeout_ms: Option<f64>,
    /// The only tools that the client uses.
    #[serde(deserialize_with = "lenient::words")]
    pub(super) only: Vec<String>,
    /// Tools that the client does not use.
    #[serde(deserialize_with = "lenient::words")]
    pub(super) without: Vec<String>,
    #[serde(flatten)]
    pub(super) others: Map<String, Value>,
}

impl Server {
    /// Returns the texts in which a server may refer to variables.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let single = [&self.command, &self.cwd, &self.url].into_iter().flatten();
        let others = single.chain(&self.args).chain(self.headers.values()).map(String::as_str);
        others.chain(self.env.values().filter_map(Value::as_str))
    }

    /// Time limit of a call, in seconds.
    pub(super) fn timeout_seconds(&self) -> Option<f64> {
        let of_any_unit =
            |timeout: f64| if timeout < FIRST_MILLISECONDS { timeout } else { timeout / 1_000.0 };
        let timeout = self.tool_timeout_sec.or(self.timeout.map(of_any_unit));
        timeout.filter(|timeout| timeout.is_finite() && *timeout > 0.0)
    }

    /// Time limit of the start, in seconds.
    pub(super) fn start_seconds(&self) -> Option<f64> {
        let start = self.startup_timeout_sec.or(self.startup_timeout_ms.map(|start| start / 1_000.0));
        start.filter(|start| start.is_finite() && *start > 0.0)
    }
}

/// A server of a file, with its name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FoundServer<'a> {
    pub(super) name: &'a str,
    pub(super) server: &'a Value,
    /// Folder of the project that has the server to itself: the default scope of Claude Code.
    pub(super) project: Option<&'a str>,
}

/// Returns the servers of a file in its order, with entries that are none, so that they can be named. A file
/// may be one server alone.
pub(super) fn servers(file: &Value) -> Vec<FoundServer<'_>> {
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

/// Circumstances of a file that decide how its servers are read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reading<'a> {
    /// True for a file of Gemini, whose texts refer to variables by `$NAME`.
    pub(super) is_gemini: bool,
    /// True for a file of opencode. Its texts alone may refer to files: a file of another client, such as
    /// `.mcp.json` of a stranger's repository, must not have its reader's files sent to a server.
    pub(super) is_opencode: bool,
    /// True for a file of Cline, Roo or Goose, whose `timeout` is in seconds, however long.
    pub(super) counts_seconds: bool,
    /// Home folder, for `~/` in a path.
    pub(super) home: Option<&'a Path>,
    /// Folder of the file, for relative paths.
    pub(super) folder: Option<&'a Path>,
}

/// Returns true for a file of opencode, by its name.
pub(super) fn is_opencode(name: &str) -> bool {
    let file = name.rsplit(['/', '\\']).next().unwrap_or_default();
    matches!(file, "opencode.json" | "opencode.jsonc")
}

/// Returns true for a file of Cline, Roo or Goose, by its path.
pub(super) fn counts_seconds(name: &str) -> bool {
    let mut parts = name.rsplit(['/', '\\']);
    let (file, folder) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    matches!(file, "cline_mcp_settings.json" | "mcp_settings.json")
        || folder == ".roo"
        || (folder, file) == ("goose", "config.yaml")
}

/// Returns true for a file of Gemini, by its path or by its own keys.
pub(super) fn is_gemini(name: &str, file: &Value) -> bool {
    let folder = |part: &str| part == ".gemini";
    name.split(['/', '\\']).any(folder)
        || servers(file).iter().any(|found| found.server.get("httpUrl").is_some())
}

/// Reads a server of any dialect.
pub(super) fn read(server: &Value, reading: Reading<'_>, notes: &mut Vec<String>) -> Result<Server, String> {
    let mut keys = match server {
        Value::Object(keys) => keys.clone(),
        Value::Null => return Err("it is null; give it a `command` or a `url`".to_owned()),
        Value::String(_) => {
            return Err("it is one string; write `command` and `args`, or `url`, in an object".to_owned());
        }
        _ => return Err("it is no object".to_owned()),
    };
    references::translate(&mut keys, reading, notes);
    if let Some(inner @ Value::Object(_)) = keys.get("command").cloned() {
        // Zed: `command: { path, args, env }`.
        keys.remove("command");
        for (key, value) in inner.as_object().into_iter().flatten() {
            keys.insert(if key == "path" { "command" } else { key }.to_owned(), value.clone());
        }
    }
    if keys.get("transport").is_some_and(Value::is_object)
        && let Some(Value::Object(inner)) = keys.remove("transport")
    {
        // Continue's former shape: `transport: { type, command, args }`.
        for (key, value) in inner {
            keys.entry(key).or_insert(value);
        }
    }
    if let Some(kind) = keys.remove("transportType") {
        // Cline's former name of it.
        keys.entry("type").or_insert(kind);
    }
    if keys.contains_key("type") {
        keys.remove("transport");
    }
    if reading.counts_seconds
        && let Some(timeout) = keys.remove("timeout")
    {
        keys.entry("tool_timeout_sec").or_insert(timeout);
    }
    for (theirs, ours) in SYNONYMS {
        let Some(value) = keys.remove(theirs) else { continue };
        match (keys.get_mut(ours), value) {
            // A file may have `excludeTools` beside `disabledTools`.
            (Some(Value::Array(known)), Value::Array(more)) if matches!(ours, "only" | "without") => {
                known.extend(more);
            }
            (Some(_), _) => {}
            (None, value) => {
                keys.insert(ours.to_owned(), value);
            }
        }
    }
    for key in ["env", "headers"] {
        let pairs = keys.get(key).and_then(Value::as_array).map(|items| pairs::of_list(items));
        if let Some(pairs) = pairs {
            keys.insert(key.to_owned(), Value::Object(pairs));
        }
    }
    if let Some(Value::String(words)) = keys.get("args") {
        let words: Vec<_> = words.split_whitespace().map(Value::from).collect();
        keys.insert("args".to_owned(), words.into());
    }
    if let Some(Value::Array(words)) = keys.get("command").cloned() {
        let mut words = words.into_iter();
        keys.insert("command".to_owned(), words.next().unwrap_or(Value::Null));
        let others = keys.remove("args").and_then(|args| args.as_array().cloned()).unwrap_or_default();
        keys.insert("args".to_owned(), words.chain(others).collect());
    }
    if let Some(enabled) = keys.remove("enabled")
        && is_off(&enabled)
    {
        keys.insert("disabled".to_owned(), json!(true));
    }
    // Copilot CLI writes `tools: ["*"]` for all of them.
    if let Some(Value::Array(tools)) = keys.remove("tools")
        && !tools.iter().any(|tool| tool == "*")
    {
        keys.entry("only").or_insert(tools.into());
    }
    variables(&mut keys);
    keys.retain(|_, value| !value.is_null());
    serde_json::from_value(Value::Object(keys)).map_err(|error| error.to_string())
}

/// Returns true for a switch that is off, also one in quotes.
fn is_off(value: &Value) -> bool {
    match value {
        Value::Bool(on) => !on,
        Value::String(text) => {
            ["false", "off", "no", "0"].iter().any(|off| text.trim().eq_ignore_ascii_case(off))
        }
        other => other.as_f64() == Some(0.0),
    }
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
        let Some(Value::Array(variables)) = keys.remove(key) else { continue };
        // Codex also writes `{ name = "TOKEN", source = "local" }`.
        let named = |variable: &Value| {
            variable.as_str().or_else(|| variable.get("name")?.as_str()).map(str::to_owned)
        };
        for name in variables.iter().filter_map(named) {
            let reference = format!("${{{name}}}");
            references.push(("env", name, reference));
        }
    }
    for (map, key, value) in references {
        if let Some(map) = keys.entry(map).or_insert_with(|| json!({})).as_object_mut() {
            map.entry(key).or_insert(value.into());
        }
    }
}

/// Readers of values as people write them: a number in an argument, a time limit in quotes.
mod lenient {
    use std::collections::BTreeMap;

    use serde::{Deserialize as _, Deserializer};
    use serde_json::Value;

    fn text(value: Value) -> Option<String> {
        match value {
            Value::Null => None,
            Value::String(text) => Some(text),
            other => Some(other.to_string()),
        }
    }

    pub(super) fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::Array(words) => words.into_iter().filter_map(text).collect(),
            other => text(other).into_iter().collect(),
        })
    }

    pub(super) fn texts<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, String>, D::Error> {
        let values = BTreeMap::<String, Value>::deserialize(deserializer)?;
        Ok(values.into_iter().filter_map(|(name, value)| Some((name, text(value)?))).collect())
    }

    pub(super) fn boolean<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::Bool(value) => value,
            Value::String(text) => text.trim().eq_ignore_ascii_case("true"),
            other => other.as_f64().is_some_and(|number| number != 0.0),
        })
    }

    pub(super) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::String(text) => text.trim().parse().ok(),
            other => other.as_f64(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Server, Value, counts_seconds, is_gemini, json, servers};

    fn read(server: &Value) -> Result<Server, String> {
        super::read(server, super::Reading::default(), &mut Vec::new())
    }

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
        let secret = json!({ "command": "x", "env": { "T": "${{ secrets.GITHUB_TOKEN }}" } });
        assert_eq!(read(&secret).unwrap().env["T"], "${env:GITHUB_TOKEN}");
    }

    #[test]
    fn values_of_other_types_are_read_as_people_mean_them() {
        let odd = json!({
            "command": "x", "args": ["-p", 8080, true, null, 1.5], "timeout": "300", "disabled": "true",
            "headers": { "X": 1 }, "excludeTools": ["a"], "disabledTools": ["b"],
        });
        let server = read(&odd).unwrap();
        assert_eq!(server.args, ["-p", "8080", "true", "1.5"]);
        assert_eq!((server.timeout, server.disabled, &*server.headers["X"]), (Some(300.0), true, "1"));
        assert_eq!(server.without, ["a", "b"]);
        assert_eq!(read(&json!({ "command": "npx", "args": "-y x" })).unwrap().args, ["-y", "x"]);
    }

    #[test]
    fn entries_that_are_no_servers_are_found_to_be_named() {
        let file = json!({ "mcpServers": { "a": { "command": "x" }, "b": null, "c": "npx -y c" } });
        let found = servers(&file);
        assert_eq!(found.iter().map(|found| found.name).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert!(read(found[1].server).unwrap_err().contains("null"));
        assert!(read(found[2].server).unwrap_err().contains("one string"));
        assert_eq!(servers(&json!({ "mcpServers": { "c": "npx -y c" } })).len(), 1);
        assert_eq!(
            servers(&json!({ "extensions": { "on": true }, "mcp": { "x": { "command": "y" } } })).len(),
            1
        );
        let list = json!({ "mcpServers": [{ "name": "a", "command": "x" }] });
        assert_eq!(servers(&list)[0].name, "a");
        assert_eq!(servers(&json!({ "command": "x" }))[0].name, "server");
    }

    #[test]
    fn limits_and_tools_are_read() {
        let server = json!({ "httpUrl": "https://a", "timeout": 30_000, "includeTools": ["a"], "disabledTools": ["b"] });
        let server = read(&server).unwrap();
        assert_eq!((server.timeout_seconds(), server.url.as_deref()), (Some(30.0), Some("https://a")));
        assert_eq!((&*server.only, &*server.without), (&["a".to_owned()][..], &["b".to_owned()][..]));
        assert_eq!(read(&json!({ "cmd": "x", "timeout": 300 })).unwrap().timeout_seconds(), Some(300.0));
        for start in [
            json!({ "command": "x", "startup_timeout_sec": 20 }),
            json!({ "command": "x", "startup_timeout_ms": 20_000 }),
            json!({ "command": ["x"], "type": "local", "timeout": 20_000 }),
            json!({ "command": "x", "connectionTimeout": 20_000 }),
        ] {
            let server = read(&start).unwrap();
            assert_eq!((server.start_seconds(), server.timeout), (Some(20.0), None), "{start}");
        }
        let codex = json!({ "command": "x", "tool_timeout_sec": 1_800 });
        assert_eq!(read(&codex).unwrap().timeout_seconds(), Some(1_800.0), "its unit is in its name");
        let roo = super::Reading { counts_seconds: true, ..super::Reading::default() };
        let hour = json!({ "command": "x", "timeout": 3_600 });
        let hour = super::read(&hour, roo, &mut Vec::new()).unwrap();
        assert_eq!(hour.timeout_seconds(), Some(3_600.0));
        let all = json!({ "type": "local", "command": "x", "tools": ["*"] });
        assert_eq!(read(&all).unwrap().only, Vec::<String>::new());
        assert_eq!(read(&json!({ "command": "x", "tools": ["a"] })).unwrap().only, ["a"]);
    }

    #[test]
    fn switches_in_quotes_former_names_and_variables_with_a_source_are_read() {
        for off in [json!(false), json!("false"), json!("Off"), json!(0)] {
            let server = json!({ "command": "x", "enabled": off, "disabled": false });
            assert!(read(&server).unwrap().disabled, "{off}: one switch is off");
        }
        for on in [json!(true), json!("true"), json!(1)] {
            assert!(!read(&json!({ "command": "x", "enabled": on })).unwrap().disabled, "{on}");
        }
        let cline = json!({ "url": "https://a/sse", "transportType": "sse", "timeout": 60 });
        assert_eq!(read(&cline).unwrap().kind.as_deref(), Some("sse"));
        let codex =
            json!({ "command": "x", "env_vars": ["A", { "name": "B", "source": "local" }, { "no": 1 }] });
        let env = read(&codex).unwrap().env;
        assert_eq!(env.keys().collect::<Vec<_>>(), ["A", "B"]);
        assert_eq!(env["B"], "${B}");
    }

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
