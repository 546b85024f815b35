//! Edits of another client's file: vmcp becomes one of its servers, and servers that vmcp serves leave it.
//! Everything else in the file, comments included, stays as it is.

mod document;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::document::Document;

/// Format of a client's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientFormat {
    /// JSON, with comments and trailing commas allowed.
    Json,
    /// TOML.
    Toml,
    /// YAML; a file with comments is not edited, because they would be lost.
    Yaml,
    /// As [`Yaml`](ClientFormat::Yaml), with a list of servers that have their names in them (Continue).
    YamlList,
}

/// A server that was taken out of a client's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TakenServer {
    /// Keys that lead to the map of servers.
    pub place: Vec<String>,
    /// Key of the server in that map.
    pub name: String,
    /// Entry of the server, with whatever secrets it holds.
    pub entry: Value,
}

/// A client's file after [`connect`].
#[derive(Debug, PartialEq)]
pub struct Connected {
    /// New text of the file.
    pub text: String,
    /// Servers that were taken out, an earlier entry of the same name included.
    pub taken: Vec<TakenServer>,
    /// Names of servers that stay beside vmcp.
    pub others: Vec<String>,
}

/// Writes `entry` as the server `name` at `place`, and takes out the servers at `place`, and at the same
/// place of each project (Claude Code), for which `served` returns true.
///
/// # Examples
///
/// ```
/// use vmcp_client_files::client_file::{ClientFormat, connect, disconnect};
///
/// let before = r#"{ "mcpServers": { "time": { "command": "uvx" } } } // mine"#;
/// let entry = serde_json::json!({ "url": "http://127.0.0.1:8080/mcp" });
/// let after = connect(before, ClientFormat::Json, &["mcpServers"], "vmcp", &entry, &|name| name == "time")?;
/// assert!(after.text.contains("8080") && !after.text.contains("uvx") && after.text.contains("// mine"));
///
/// let undone = disconnect(&after.text, ClientFormat::Json, &["mcpServers"], "vmcp", &after.taken)?;
/// assert!(undone.contains("uvx") && !undone.contains("8080"));
/// # Ok::<(), String>(())
/// ```
pub fn connect(
    text: &str,
    format: ClientFormat,
    place: &[&str],
    name: &str,
    entry: &Value,
    served: &dyn Fn(&str) -> bool,
) -> Result<Connected, String> {
    let mut document = Document::parse(text, format)?;
    let mut places = vec![owned(place)];
    let projects = document.entries(&owned(&["projects"]));
    places.extend(projects.into_iter().map(|(folder, _)| {
        let keys = ["projects", folder.as_str()];
        keys.iter().chain(place).map(|key| (*key).to_owned()).collect()
    }));
    let (mut taken, mut others) = (Vec::new(), Vec::new());
    for place in places {
        for (found, old) in document.entries(&place) {
            if old == *entry {
                continue;
            }
            if found == name || served(&found) {
                document.remove(&place, &found);
                taken.push(TakenServer { place: place.clone(), name: found, entry: old });
            } else {
                others.push(found);
            }
        }
    }
    document.set(&owned(place), name, entry)?;
    // Readers of TOML and YAML refuse a key that stands twice.
    let is_read = |(found, now): &(String, Value)| found == name && now == entry;
    if format == ClientFormat::Json && !document.entries(&owned(place)).iter().any(is_read) {
        return Err("a key stands twice in it, and clients read the last one; remove one".to_owned());
    }
    Ok(Connected { text: document.text()?, taken, others })
}

/// Removes the server `name` from `place` and puts `taken` servers back, unless there are others of their
/// name by now.
pub fn disconnect(
    text: &str,
    format: ClientFormat,
    place: &[&str],
    name: &str,
    taken: &[TakenServer],
) -> Result<String, String> {
    let mut document = Document::parse(text, format)?;
    document.remove(&owned(place), name);
    for TakenServer { place, name, entry } in taken {
        if !document.entries(place).iter().any(|(found, _)| found == name) {
            document.set(place, name, entry)?;
        }
    }
    document.text()
}

fn owned(place: &[&str]) -> Vec<String> {
    place.iter().map(|key| (*key).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn round(before: &str, format: ClientFormat, place: &[&str], entry: &Value) -> (Connected, String) {
        let served = |name: &str| name == "time";
        let after = connect(before, format, place, "vmcp", entry, &served).unwrap();
        let undone = disconnect(&after.text, format, place, "vmcp", &after.taken).unwrap();
        (after, undone)
    }

    #[test]
    fn json_keeps_its_comments_and_comes_back() {
        let before = "{\n  // mine\n  \"mcpServers\": {\n    \"time\": { \"command\": \"uvx\" }, // clock\n    \"own\": { \"url\": \"https://own\" },\n  },\n  \"other\": [1, 2]\n}\n";
        let (after, undone) =
            round(before, ClientFormat::Json, &["mcpServers"], &json!({ "args": ["serve", "--stdio"] }));
        assert!(after.text.contains("// mine") && after.text.contains("\"--stdio\""), "{}", after.text);
        assert!(!after.text.contains("uvx"), "{}", after.text);
        assert_eq!(after.others, ["own"]);
        assert!(undone.contains("\"uvx\"") && !undone.contains("--stdio"), "{undone}");
        assert!(undone.contains("// mine") && undone.contains("\"other\": [1, 2]"), "{undone}");
    }

    #[test]
    fn toml_keeps_its_comments_and_comes_back() {
        let before =
            "# mine\nmodel = \"o\"\n\n[mcp_servers.time]\ncommand = \"uvx\"\nargs = [\"mcp-server-time\"]\n";
        let entry = json!({ "command": "vmcp", "args": ["serve"], "enabled": true, "n": 3 });
        let (after, undone) = round(before, ClientFormat::Toml, &["mcp_servers"], &entry);
        assert!(after.text.starts_with("# mine\nmodel = \"o\"\n"), "{}", after.text);
        assert!(after.text.contains("[mcp_servers.vmcp]") && !after.text.contains("uvx"), "{}", after.text);
        assert!(undone.contains("[mcp_servers.time]") && !undone.contains("vmcp]"), "{undone}");
    }

    #[test]
    fn yaml_is_edited_unless_comments_would_be_lost() {
        let before = "extensions:\n  time:\n    cmd: uvx\nGOOSE_MODEL: x\n";
        let (after, undone) =
            round(before, ClientFormat::Yaml, &["extensions"], &json!({ "cmd": "vmcp", "args": ["a"] }));
        assert!(after.text.contains("cmd: vmcp") && after.text.contains("GOOSE_MODEL: x"), "{}", after.text);
        assert!(!after.text.contains("uvx") && undone.contains("cmd: uvx"), "{undone}");
        let commented = connect("# mine\na: 1\n", ClientFormat::Yaml, &["x"], "vmcp", &json!({}), &|_| false);
        assert!(commented.unwrap_err().contains("comments"));
    }

    #[test]
    fn a_list_of_named_servers_is_edited() {
        let before =
            "name: mine\nmcpServers:\n  - name: time\n    command: uvx\n  - name: own\n    command: own\n";
        let entry = json!({ "name": "vmcp", "command": "vmcp" });
        let (after, undone) = round(before, ClientFormat::YamlList, &["mcpServers"], &entry);
        assert!(after.text.contains("- name: vmcp") && !after.text.contains("uvx"), "{}", after.text);
        assert_eq!(after.others, ["own"]);
        assert!(undone.contains("command: uvx") && !undone.contains("vmcp"), "{undone}");
        let (fresh, _) = round("name: mine\n", ClientFormat::YamlList, &["mcpServers"], &entry);
        assert!(fresh.text.contains("- name: vmcp"), "{}", fresh.text);
    }

    #[test]
    fn an_absent_or_empty_file_gets_the_entry() {
        for format in [ClientFormat::Json, ClientFormat::Toml, ClientFormat::Yaml, ClientFormat::YamlList] {
            let (after, _) = round("", format, &["a", "b"], &json!({ "command": "vmcp" }));
            assert!(after.text.contains("command"), "{}", after.text);
            assert!(after.taken.is_empty());
        }
        for (text, format) in [
            ("{\n  \"a\": null, // none yet\n}\n", ClientFormat::Json),
            ("{\"a\": {\"b\": null}}", ClientFormat::Json),
            ("a:\n", ClientFormat::Yaml),
            ("a:\n  b:\n", ClientFormat::Yaml),
            ("a:\n  b:\n", ClientFormat::YamlList),
        ] {
            let entry = json!({ "name": "vmcp", "command": "vmcp" });
            let (after, undone) = round(text, format, &["a", "b"], &entry);
            assert!(after.text.contains("command"), "{text:?}: {}", after.text);
            assert!(!undone.contains("command") && undone.contains("none yet") == text.contains("none yet"));
        }
    }

    #[test]
    fn projects_lose_their_servers_too_and_an_old_entry_comes_back() {
        let before = json!({
            "mcpServers": { "vmcp": { "command": "old" } },
            "projects": { "/a": { "mcpServers": { "time": { "command": "uvx" }, "x": {} } }, "/b": {} },
        });
        let entry = json!({ "command": "new" });
        let (after, undone) = round(&before.to_string(), ClientFormat::Json, &["mcpServers"], &entry);
        assert_eq!(after.taken.len(), 2, "{:?}", after.taken);
        let again = connect(&after.text, ClientFormat::Json, &["mcpServers"], "vmcp", &entry, &|_| false);
        assert!(again.unwrap().taken.is_empty(), "our own entry is nobody's old one");
        let undone: Value = serde_json::from_str(&undone).unwrap();
        assert_eq!(undone["projects"]["/a"]["mcpServers"]["time"], json!({ "command": "uvx" }));
        assert_eq!(undone["mcpServers"]["vmcp"], json!({ "command": "old" }));
    }

    #[test]
    fn a_file_with_the_history_of_many_projects_is_edited_at_once() {
        let history = "a question of a person. ".repeat(400);
        let project = json!({ "history": history, "mcpServers": { "time": { "command": "uvx" } } });
        let projects: serde_json::Map<String, Value> =
            (0..400).map(|number| (format!("/srv/{number}"), project.clone())).collect();
        let before = json!({ "mcpServers": {}, "projects": projects }).to_string();
        let begin = std::time::Instant::now();
        let entry = json!({ "command": "vmcp" });
        let served = |name: &str| name == "time";
        let connected =
            connect(&before, ClientFormat::Json, &["mcpServers"], "vmcp", &entry, &served).unwrap();
        assert_eq!(connected.taken.len(), 400);
        // A conversion of the whole file for each project takes minutes.
        assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{:?}", begin.elapsed());
    }

    #[test]
    fn a_key_that_stands_twice_is_refused() {
        let entry = json!({ "command": "vmcp" });
        let connected =
            |text: &str| connect(text, ClientFormat::Json, &["mcpServers"], "vmcp", &entry, &|_| false);
        let twice = r#"{ "mcpServers": {}, "mcpServers": { "own": { "command": "own" } } }"#;
        assert!(connected(twice).unwrap_err().contains("twice"));
        let elsewhere = r#"{ "other": 1, "other": 2, "mcpServers": {} }"#;
        assert!(connected(elsewhere).is_ok());
        // Twice below a project, and as a server: clients read the last one, and neither may stay.
        let served = |name: &str| name == "time";
        for twice in [
            r#"{ "projects": { "/a": { "mcpServers": {}, "mcpServers": { "time": { "command": "x" } } } } }"#,
            r#"{ "mcpServers": { "time": { "command": "y" }, "time": { "command": "x" } } }"#,
        ] {
            let after = connect(twice, ClientFormat::Json, &["mcpServers"], "vmcp", &entry, &served).unwrap();
            assert_eq!(after.taken[0].entry, json!({ "command": "x" }));
            assert!(!after.text.contains("time"), "{}", after.text);
        }
    }

    #[test]
    fn a_file_of_another_shape_is_refused() {
        let set = |text, format| connect(text, format, &["a"], "vmcp", &json!({}), &|_| false).is_err();
        assert!(set("[1]", ClientFormat::Json) && set("{\"a\": 1}", ClientFormat::Json));
        assert!(set("a = 1", ClientFormat::Toml) && set("a = ", ClientFormat::Toml));
        assert!(set("a: 1", ClientFormat::Yaml) && set("- 1", ClientFormat::Yaml));
    }
}
