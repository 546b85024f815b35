//! Entries in JSON, as the pages of servers show them for the files of other clients.

use serde_json::{Map, Value};
use vmcp_client_files::import::SERVER_PLACES;

use crate::cli::console::failure::{CommandFailure, Exit};

/// Keys of one server.
const SERVER_KEYS: [&str; 6] = ["command", "cmd", "url", "uri", "httpUrl", "serverUrl"];

/// True for a text in JSON: an object, or an entry of one.
pub(super) fn is_pasted(text: &str) -> bool {
    text.trim_start().starts_with(['{', '"'])
}

/// Returns the servers of a text in JSON: one server, an entry, or a whole file. A given name is that of the
/// only server.
pub(super) fn servers(text: &str, name: Option<&str>) -> Result<Map<String, Value>, CommandFailure> {
    let text = text.trim().trim_end_matches(',');
    let whole = if text.starts_with('"') { format!("{{{text}}}") } else { text.to_owned() };
    let keys: Map<String, Value> = serde_json::from_str(&whole).map_err(|error| {
        refused(format!("the JSON is not readable: {error}"))
            .remedy("put it between single quotes; or save it, and `vmcp init --from FILE --merge`")
    })?;
    if is_server(&keys) {
        let own = keys.get("name").and_then(Value::as_str).map(str::to_owned);
        let name = name.map(str::to_owned).or(own).ok_or_else(|| {
            refused("the server has no name").remedy("give the name first: `vmcp add NAME …`")
        })?;
        return Ok(Map::from_iter([(name, Value::Object(keys))]));
    }
    let file = Value::Object(keys);
    // `{"mcp": {"command": …}}` is a server of that name.
    let is_map = |found: &&Value| !found.as_object().is_some_and(is_server);
    let place = SERVER_PLACES.iter().find_map(|place| file.pointer(place).filter(is_map));
    let servers = place.unwrap_or(&file).as_object().cloned().unwrap_or_default();
    if servers.is_empty() || !servers.values().all(Value::is_object) {
        return Err(refused("the JSON has no server").remedy("paste an object with `command` or `url`"));
    }
    match name {
        None => Ok(servers),
        Some(name) if servers.len() == 1 => {
            Ok(servers.into_iter().map(|(_, server)| (name.to_owned(), server)).collect())
        }
        Some(_) => {
            let remedy = "paste one of them; `vmcp add` without a name takes all, each with its own";
            Err(refused("the JSON has several servers").remedy(remedy))
        }
    }
}

fn is_server(keys: &Map<String, Value>) -> bool {
    SERVER_KEYS.iter().any(|key| keys.contains_key(*key))
}

fn refused(message: impl Into<String>) -> CommandFailure {
    CommandFailure::new(message).exit(Exit::Usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_entries_and_files_are_told_apart() {
        for (text, name, expected) in [
            (r#"{"command": "x"}"#, Some("a"), &["a"][..]),
            (r#"{"name": "own", "url": "https://a"}"#, None, &["own"]),
            (
                r#"{"mcpServers": {"one": {"command": "x"}, "two": {"url": "https://a"}}}"#,
                None,
                &["one", "two"],
            ),
            (r#"{"servers": {"one": {"command": "x"}}}"#, Some("a"), &["a"]),
            (r#"{"mcp": {"inputs": [], "servers": {"one": {"command": "x"}}}}"#, None, &["one"]),
            (r#"{"mcp": {"command": "x"}}"#, None, &["mcp"]),
            (r#"{"one": {"command": "x"}}"#, None, &["one"]),
            (r#""one": {"command": "x"},"#, None, &["one"]),
        ] {
            let found = servers(text, name).unwrap();
            assert_eq!(found.keys().collect::<Vec<_>>(), expected, "{text}");
        }
        for (text, name) in [
            (r#"{"command": "x"}"#, None),
            (r#"{"a": {"command": "x"}, "b": {"command": "x"}}"#, Some("c")),
            ("{}", Some("a")),
            (r#"{"a": 1}"#, None),
            (r#"{"a": {"command": "x"}"#, None),
        ] {
            assert!(servers(text, name).is_err(), "{text}");
        }
    }
}
