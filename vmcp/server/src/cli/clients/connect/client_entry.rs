//! Entry of vmcp in the file of each client, in the client's own dialect.

use std::path::PathBuf;

use serde_json::{Value, json};
use vmcp_client_files::client_file::ClientFormat;

/// Way by which the client reaches vmcp.
pub(super) enum Endpoint {
    /// A program that the client starts.
    Command(StartedProgram),
    /// URL of a running server.
    Url(String),
}

/// The command of vmcp in a client's file.
pub(super) struct StartedProgram {
    /// Program of vmcp.
    pub(super) program: PathBuf,
    /// Absolute path of the configuration file.
    pub(super) config: PathBuf,
    /// The part of it that the client sees.
    pub(super) profile: Option<String>,
    /// True for a server of the client's own; else all clients share one (`vmcp mcp-server`).
    pub(super) own_server: bool,
    /// `PATH` that finds the programs of the servers: a client that was started from a menu has a bare one.
    pub(super) path: Option<String>,
}

impl StartedProgram {
    fn arguments(&self) -> Vec<String> {
        let command: &[&str] = if self.own_server { &["serve", "--stdio"] } else { &["mcp-server"] };
        let config = ["--config".to_owned(), self.config.display().to_string()];
        let profile = self.profile.iter().flat_map(|name| ["--profile".to_owned(), name.clone()]);
        command.iter().map(|word| (*word).to_owned()).chain(config).chain(profile).collect()
    }
}

/// Format of a client's file, and the place and dialect of servers in it.
pub(super) struct ClientShape {
    pub(super) format: ClientFormat,
    pub(super) place: &'static [&'static str],
    dialect: Dialect,
}

#[derive(Clone, Copy)]
enum Dialect {
    /// `type` beside `command` or `url`: Claude Code, VS Code.
    Typed,
    /// `command` and `args`, or an address under this key.
    Plain(&'static str),
    /// Programs only: Claude Desktop.
    CommandOnly,
    Goose,
    Opencode,
}

impl ClientShape {
    /// Returns the shape of a known client's file.
    pub(super) fn for_client(client: &str) -> Option<ClientShape> {
        let json = |key: &'static [&'static str], dialect| (ClientFormat::Json, key, dialect);
        let (format, place, dialect) = match client {
            "claude" => json(&["mcpServers"], Dialect::Typed),
            "claude-desktop" => json(&["mcpServers"], Dialect::CommandOnly),
            "codex" => (ClientFormat::Toml, &["mcp_servers"][..], Dialect::Plain("url")),
            "cursor" => json(&["mcpServers"], Dialect::Plain("url")),
            "gemini" => json(&["mcpServers"], Dialect::Plain("httpUrl")),
            "goose" => (ClientFormat::Yaml, &["extensions"][..], Dialect::Goose),
            "opencode" => json(&["mcp"], Dialect::Opencode),
            "vscode" => json(&["servers"], Dialect::Typed),
            "windsurf" => json(&["mcpServers"], Dialect::Plain("serverUrl")),
            "zed" => json(&["context_servers"], Dialect::Plain("url")),
            _ => return None,
        };
        Some(ClientShape { format, place, dialect })
    }

    /// Returns the entry of vmcp.
    pub(super) fn entry(&self, endpoint: &Endpoint) -> Result<Value, String> {
        let started = match endpoint {
            Endpoint::Url(url) => return self.address(url),
            Endpoint::Command(started) => started,
        };
        let (program, args) = (started.program.display().to_string(), json!(started.arguments()));
        let mut entry = match self.dialect {
            Dialect::Typed => json!({ "type": "stdio", "command": program, "args": args }),
            Dialect::Plain(_) | Dialect::CommandOnly => json!({ "command": program, "args": args }),
            Dialect::Goose => json!({
                "name": "vmcp", "type": "stdio", "enabled": true, "cmd": program, "args": args, "timeout": 300,
            }),
            Dialect::Opencode => {
                let words =
                    std::iter::once(json!(program)).chain(args.as_array().cloned().unwrap_or_default());
                json!({ "type": "local", "command": words.collect::<Value>(), "enabled": true })
            }
        };
        if let (Some(path), Some(keys)) = (&started.path, entry.as_object_mut()) {
            keys.insert(self.key_of_variables().to_owned(), json!({ "PATH": path }));
        }
        Ok(entry)
    }

    /// Returns the key of the environment variables of a program.
    fn key_of_variables(&self) -> &'static str {
        match self.dialect {
            Dialect::Goose => "envs",
            Dialect::Opencode => "environment",
            Dialect::Typed | Dialect::Plain(_) | Dialect::CommandOnly => "env",
        }
    }

    fn address(&self, url: &str) -> Result<Value, String> {
        Ok(match self.dialect {
            Dialect::Typed => json!({ "type": "http", "url": url }),
            Dialect::Plain(key) => json!({ key: url }),
            Dialect::CommandOnly => {
                return Err("this client only starts programs; leave out --http".to_owned());
            }
            Dialect::Goose => json!({
                "name": "vmcp", "type": "streamable_http", "enabled": true, "uri": url, "timeout": 300,
            }),
            Dialect::Opencode => json!({ "type": "remote", "url": url, "enabled": true }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmcp_client_files::known_clients::names;

    #[test]
    fn every_known_client_can_be_connected_and_its_entry_is_recognized_as_vmcp() {
        for client in names() {
            let shape = ClientShape::for_client(client).unwrap_or_else(|| panic!("{client}"));
            let started = |own_server| {
                Endpoint::Command(StartedProgram {
                    program: "/usr/bin/vmcp".into(),
                    config: "/me/vmcp.yaml".into(),
                    profile: Some("work".into()),
                    own_server,
                    path: Some("/me/bin:/usr/bin".into()),
                })
            };
            let url = Endpoint::Url("http://127.0.0.1:8080/mcp".to_owned());
            for endpoint in [started(false), started(true), url] {
                let Ok(entry) = shape.entry(&endpoint) else {
                    assert_eq!(client, "claude-desktop");
                    continue;
                };
                let file = json!({ shape.place[0]: { "vmcp": entry, "own": { "command": "own" } } });
                let imported = vmcp_client_files::import::import(&file.to_string(), client).unwrap();
                assert_eq!(imported.backends, ["own"], "{client}: {:?}", imported.notes);
            }
            let entry = shape.entry(&started(false)).unwrap();
            assert_eq!(entry[shape.key_of_variables()]["PATH"], "/me/bin:/usr/bin", "{client}");
            assert!(entry.to_string().contains(r#""mcp-server","--config","/me/vmcp.yaml""#), "{entry}");
        }
    }
}
