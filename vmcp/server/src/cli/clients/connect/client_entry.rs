//! Entry of vmcp in the file of each client, in the client's own dialect.

use std::path::PathBuf;

use serde_json::{Value, json};
use vmcp_client_files::client_file::ClientFormat;

/// Way by which the client reaches vmcp.
pub(super) enum Endpoint {
    /// A program that the client starts.
    Command(StartedProgram),
    /// URL of a running server.
    Url {
        url: String,
        /// True if the server wants one of its keys, and has no issuer at which clients sign in.
        needs_key: bool,
    },
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
    /// Environment variables of this shell: a client that was started from a menu has a bare `PATH`, and
    /// neither proxies nor folders.
    pub(super) variables: Vec<(String, String)>,
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
    /// Switches of the client's own for a program: time limits above all, because a first start may download
    /// servers and a call may take minutes.
    switches: &'static [(&'static str, u64)],
    /// The `Authorization` of a header that refers to [`KEY_VARIABLE`], or Continue's `apiKey`; `None` if the
    /// client's documentation knows no reference.
    key_reference: Option<&'static str>,
}

/// Environment variable with a client's key, to which the entries of `--http` refer.
pub(super) const KEY_VARIABLE: &str = "VMCP_TOKEN";

#[derive(Clone, Copy)]
enum Dialect {
    /// `type` beside `command` or `url`: Claude Code, VS Code.
    Typed,
    /// `command` and `args`, or an address under this key.
    Plain(&'static str),
    /// `command` and `args`, or `url` with this type, without which the client speaks SSE.
    PlainTyped(&'static str),
    /// Programs only: Claude Desktop.
    CommandOnly,
    Continue,
    CopilotCli,
    Goose,
    Opencode,
}

impl ClientShape {
    /// Returns the shape of a known client's file.
    pub(super) fn for_client(client: &str) -> Option<ClientShape> {
        /// `${NAME}`, as in a shell.
        const BRACES: Option<&str> = Some("Bearer ${VMCP_TOKEN}");
        /// `${env:NAME}`, as VS Code and its like write it.
        const ENV: Option<&str> = Some("Bearer ${env:VMCP_TOKEN}");
        let json = |place: &'static [&'static str], dialect| ClientShape {
            format: ClientFormat::Json,
            place,
            dialect,
            switches: &[],
            key_reference: None,
        };
        let servers = |dialect| json(&["mcpServers"], dialect);
        Some(match client {
            "amp" => {
                ClientShape { key_reference: BRACES, ..json(&["amp.mcpServers"], Dialect::Plain("url")) }
            }
            "claude" => ClientShape { key_reference: BRACES, ..servers(Dialect::Typed) },
            "claude-desktop" => servers(Dialect::CommandOnly),
            // Seconds of a call; its default is one minute.
            "cline" => ClientShape {
                switches: &[("timeout", 300)],
                ..servers(Dialect::PlainTyped("streamableHttp"))
            },
            // Its defaults are 10 and 60 seconds. The key is named by `bearer_token_env_var`.
            "codex" => ClientShape {
                format: ClientFormat::Toml,
                switches: &[("startup_timeout_sec", 60), ("tool_timeout_sec", 300)],
                ..json(&["mcp_servers"], Dialect::Plain("url"))
            },
            "continue" => ClientShape {
                format: ClientFormat::YamlList,
                switches: &[("connectionTimeout", 60_000)],
                key_reference: Some("${{ secrets.VMCP_TOKEN }}"),
                ..servers(Dialect::Continue)
            },
            "copilot-cli" => servers(Dialect::CopilotCli),
            "cursor" => ClientShape { key_reference: ENV, ..servers(Dialect::Plain("url")) },
            "gemini" => ClientShape {
                key_reference: Some("Bearer $VMCP_TOKEN"),
                ..servers(Dialect::Plain("httpUrl"))
            },
            "goose" => ClientShape {
                format: ClientFormat::Yaml,
                switches: &[("timeout", 300)],
                ..json(&["extensions"], Dialect::Goose)
            },
            "kiro" => ClientShape { key_reference: BRACES, ..servers(Dialect::Plain("url")) },
            "lm-studio" => servers(Dialect::Plain("url")),
            // Milliseconds in which the tools are to be listed; its default is 5 seconds.
            "opencode" => ClientShape {
                switches: &[("timeout", 60_000)],
                key_reference: Some("Bearer {env:VMCP_TOKEN}"),
                ..json(&["mcp"], Dialect::Opencode)
            },
            // Seconds of a call; its default is one minute.
            "roo" => ClientShape {
                switches: &[("timeout", 300)],
                key_reference: ENV,
                ..servers(Dialect::PlainTyped("streamable-http"))
            },
            "vscode" | "vscode-insiders" | "vscodium" => {
                ClientShape { key_reference: ENV, ..json(&["servers"], Dialect::Typed) }
            }
            "windsurf" => ClientShape { key_reference: ENV, ..servers(Dialect::Plain("serverUrl")) },
            "zed" => json(&["context_servers"], Dialect::Plain("url")),
            _ => return None,
        })
    }

    /// Returns true if an entry with an address can refer to the client's key, so that the key stays out of
    /// the file.
    pub(super) fn refers_to_key(&self) -> bool {
        self.key_reference.is_some() || self.format == ClientFormat::Toml
    }

    /// Returns the place of the key to which an entry refers.
    pub(super) fn place_of_key(&self) -> &'static str {
        if matches!(self.dialect, Dialect::Continue) {
            "put one of `incomingAuth.apiKeys` under that name into ~/.continue/.env"
        } else {
            "start the client with one of `incomingAuth.apiKeys` in that variable"
        }
    }

    /// Returns the entry of vmcp.
    pub(super) fn entry(&self, endpoint: &Endpoint) -> Result<Value, String> {
        let mut entry = match endpoint {
            Endpoint::Url { url, needs_key } => self.address(url, *needs_key)?,
            Endpoint::Command(started) => self.program(started),
        };
        if let Some(keys) = entry.as_object_mut() {
            keys.extend(self.switches.iter().map(|(key, value)| ((*key).to_owned(), json!(value))));
        }
        Ok(entry)
    }

    fn program(&self, started: &StartedProgram) -> Value {
        let (program, args) = (started.program.display().to_string(), json!(started.arguments()));
        let mut entry = match self.dialect {
            Dialect::Typed => json!({ "type": "stdio", "command": program, "args": args }),
            Dialect::Plain(_) | Dialect::PlainTyped(_) | Dialect::CommandOnly => {
                json!({ "command": program, "args": args })
            }
            Dialect::Continue => json!({ "name": "vmcp", "command": program, "args": args }),
            Dialect::CopilotCli => {
                json!({ "type": "local", "command": program, "args": args, "tools": ["*"] })
            }
            Dialect::Goose => json!({
                "name": "vmcp", "type": "stdio", "enabled": true, "cmd": program, "args": args,
            }),
            Dialect::Opencode => {
                let words =
                    std::iter::once(json!(program)).chain(args.as_array().cloned().unwrap_or_default());
                json!({ "type": "local", "command": words.collect::<Value>(), "enabled": true })
            }
        };
        if let Some(keys) = entry.as_object_mut().filter(|_| !started.variables.is_empty()) {
            let variables = started.variables.iter().map(|(name, value)| (name.clone(), json!(value)));
            keys.insert(self.key_of_variables().to_owned(), variables.collect());
        }
        entry
    }

    /// Returns the key of the environment variables of a program.
    fn key_of_variables(&self) -> &'static str {
        match self.dialect {
            Dialect::Goose => "envs",
            Dialect::Opencode => "environment",
            _ => "env",
        }
    }

    fn address(&self, url: &str, needs_key: bool) -> Result<Value, String> {
        let mut entry = match self.dialect {
            Dialect::Typed => json!({ "type": "http", "url": url }),
            Dialect::Plain(key) => json!({ key: url }),
            Dialect::PlainTyped(kind) => json!({ "type": kind, "url": url }),
            Dialect::CommandOnly => {
                return Err("this client only starts programs; leave out --http".to_owned());
            }
            Dialect::Continue => json!({ "name": "vmcp", "type": "streamable-http", "url": url }),
            Dialect::CopilotCli => json!({ "type": "http", "url": url, "tools": ["*"] }),
            Dialect::Goose => {
                json!({ "name": "vmcp", "type": "streamable_http", "enabled": true, "uri": url })
            }
            Dialect::Opencode => json!({ "type": "remote", "url": url, "enabled": true }),
        };
        if let (true, Some(keys)) = (needs_key, entry.as_object_mut()) {
            match (self.dialect, self.key_reference) {
                _ if self.format == ClientFormat::Toml => {
                    keys.insert("bearer_token_env_var".to_owned(), KEY_VARIABLE.into());
                }
                // Continue sends it as a bearer token.
                (Dialect::Continue, Some(reference)) => {
                    keys.insert("apiKey".to_owned(), reference.into());
                }
                (_, Some(reference)) => {
                    keys.insert("headers".to_owned(), json!({ "Authorization": reference }));
                }
                (_, None) => {}
            }
        }
        Ok(entry)
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
                    variables: vec![("PATH".to_owned(), "/me/bin:/usr/bin".to_owned())],
                })
            };
            let url = Endpoint::Url { url: "http://127.0.0.1:8080/mcp".to_owned(), needs_key: true };
            for endpoint in [started(false), started(true), url] {
                let Ok(entry) = shape.entry(&endpoint) else {
                    assert_eq!(client, "claude-desktop");
                    continue;
                };
                let servers = match shape.format {
                    ClientFormat::YamlList => json!([entry, { "name": "own", "command": "own" }]),
                    _ => json!({ "vmcp": entry, "own": { "command": "own" } }),
                };
                let file = json!({ shape.place[0]: servers });
                let imported = vmcp_client_files::import::import(&file.to_string(), client).unwrap();
                assert_eq!(imported.backends, ["own"], "{client}: {:?}", imported.notes);
            }
            let entry = shape.entry(&started(false)).unwrap();
            assert_eq!(entry[shape.key_of_variables()]["PATH"], "/me/bin:/usr/bin", "{client}");
            assert!(entry.to_string().contains(r#""mcp-server","--config","/me/vmcp.yaml""#), "{entry}");
        }
    }
    #[test]
    fn an_entry_refers_to_the_key_and_never_holds_it() {
        let entry = |client: &str, needs_key| {
            let shape = ClientShape::for_client(client).unwrap();
            let url = Endpoint::Url { url: "https://hub.example/mcp".to_owned(), needs_key };
            (shape.entry(&url).unwrap(), shape.refers_to_key())
        };
        for (client, pointer, expected) in [
            ("claude", "/headers/Authorization", "Bearer ${VMCP_TOKEN}"),
            ("codex", "/bearer_token_env_var", "VMCP_TOKEN"),
            ("cursor", "/headers/Authorization", "Bearer ${env:VMCP_TOKEN}"),
            ("gemini", "/headers/Authorization", "Bearer $VMCP_TOKEN"),
            ("opencode", "/headers/Authorization", "Bearer {env:VMCP_TOKEN}"),
            ("vscode", "/headers/Authorization", "Bearer ${env:VMCP_TOKEN}"),
            ("continue", "/apiKey", "${{ secrets.VMCP_TOKEN }}"),
        ] {
            let (with, refers) = entry(client, true);
            assert_eq!(with.pointer(pointer).and_then(Value::as_str), Some(expected), "{with}");
            let (without, _) = entry(client, false);
            assert!(refers && without.pointer(pointer).is_none(), "{without}");
        }
        assert!(!entry("zed", true).1);
        let continue_dev = ClientShape::for_client("continue").unwrap();
        assert!(continue_dev.place_of_key().contains(".continue/.env"), "it reads no environment variable");
    }

    #[test]
    fn a_client_gets_the_time_limits_that_it_reads() {
        for (client, key, value) in [
            ("codex", "startup_timeout_sec", 60),
            ("codex", "tool_timeout_sec", 300),
            ("opencode", "timeout", 60_000),
            ("goose", "timeout", 300),
            ("cline", "timeout", 300),
            ("continue", "connectionTimeout", 60_000),
        ] {
            let shape = ClientShape::for_client(client).unwrap();
            let url = Endpoint::Url { url: "https://hub.example/mcp".to_owned(), needs_key: false };
            assert_eq!(shape.entry(&url).unwrap()[key], value, "{client}");
        }
    }
}
