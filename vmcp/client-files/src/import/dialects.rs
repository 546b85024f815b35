//! Dialects of other clients: the places where their files keep servers, and one set of keys for all.

mod pairs;
mod places;
mod reading;
mod references;
mod server;
pub(super) mod switches;

use serde_json::{Map, Value, json};

pub use self::places::PLACES;
pub(super) use self::places::{FoundServer, servers};
pub(super) use self::reading::{Reading, counts_seconds, is_gemini, is_opencode};
pub(super) use self::server::Server;

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

#[cfg(test)]
mod tests {
    use super::{Server, Value, json, servers};

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
}
