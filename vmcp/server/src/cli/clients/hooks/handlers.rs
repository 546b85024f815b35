//! Handlers in a client's file of hooks: commands that send the hook, and URLs where the client calls them
//! itself.

use std::path::Path;

use serde_json::{Value, json};
use url::Url;
use vmcp_hooks::native::NativeClient;

/// Seconds after which a client goes on without the answer.
const TIMEOUT_SECONDS: u32 = 10;
/// Events that are installed for both clients.
const EVENTS: [&str; 8] = [
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "Stop",
    "PreCompact",
    "PostCompact",
    "SubagentStart",
    "SubagentStop",
];
/// Further events that Claude Code alone has.
const CLAUDE_EVENTS: [&str; 2] = ["Notification", "StopFailure"];
/// Further events that Codex alone has.
const CODEX_EVENTS: [&str; 1] = ["Interrupt"];
/// Events of each call of a tool.
const TOOL_EVENTS: [&str; 2] = ["PreToolUse", "PostToolUse"];
/// Events of Claude Code that go by a command: a start takes no URL, the others bring the transcript.
const BY_COMMAND: [&str; 3] = ["SessionStart", "SessionEnd", "PreCompact"];

/// The way from a client to the server.
pub(super) struct HookRoute<'a> {
    /// Program of vmcp.
    pub(super) program: &'a Path,
    /// Words that name the server: `--config FILE` or `--url URL`.
    pub(super) server: [&'a str; 2],
    /// URL that the client may call itself; `None`: every event goes by a command, which adds a token.
    pub(super) url: Option<&'a Url>,
}

/// Returns the events to install, each with its handler. `tools`: also those of each call of a tool.
pub(super) fn handlers(
    client: NativeClient,
    route: &HookRoute<'_>,
    tools: bool,
) -> Vec<(&'static str, Value)> {
    let further: &[&'static str] = match client {
        NativeClient::Claude => &CLAUDE_EVENTS,
        NativeClient::Codex => &CODEX_EVENTS,
    };
    let events = EVENTS.iter().chain(further).chain(TOOL_EVENTS.iter().filter(|_| tools));
    let handler = |event: &&'static str| match route.url {
        Some(url) if client == NativeClient::Claude && !BY_COMMAND.contains(event) => {
            json!({"type": "http", "url": url, "timeout": TIMEOUT_SECONDS})
        }
        _ => json!({"type": "command", "command": command(client, route), "timeout": TIMEOUT_SECONDS}),
    };
    events.map(|event| (*event, handler(event))).collect()
}

/// True for a handler that [`handlers`] made, also for another server.
pub(super) fn is_own(client: NativeClient, handler: &Value) -> bool {
    let text = |key: &str| handler.get(key).and_then(Value::as_str).unwrap_or_default();
    let sends = format!(" hooks send {}", client.name());
    let is_command = text("command").contains(&sends) && text("command").contains("vmcp");
    is_command || text("url").ends_with(&format!("/hooks/{}", client.name()))
}

/// Returns the command line for a shell.
fn command(client: NativeClient, route: &HookRoute<'_>) -> String {
    let program = route.program.display().to_string();
    let [option, value] = route.server;
    format!("{} hooks send {} {option} {}", quoted(&program), client.name(), quoted(value))
}

/// Quotes a word for a POSIX shell, unless it is plain.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | ':');
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(url: Option<&Url>) -> HookRoute<'_> {
        HookRoute { program: Path::new("/my bin/vmcp"), server: ["--config", "/it's/vmcp.yaml"], url }
    }

    #[test]
    fn each_handler_is_for_an_event_of_its_client_and_known_as_own() {
        let url = Url::parse("http://127.0.0.1:8080/hooks/claude").unwrap();
        for (client, url) in [(NativeClient::Claude, Some(&url)), (NativeClient::Codex, None)] {
            let made = handlers(client, &route(url), true);
            for (event, handler) in &made {
                assert!(client.events().contains(event), "{event}");
                assert!(is_own(client, handler), "{handler}");
            }
            assert!(
                !made
                    .iter()
                    .any(|(_, handler)| is_own(NativeClient::Codex, handler)
                        != (client == NativeClient::Codex))
            );
            assert_eq!(made.len() - handlers(client, &route(url), false).len(), 2);
        }
        assert!(!is_own(NativeClient::Claude, &json!({"type": "command", "command": "beep"})));
    }

    #[test]
    fn claude_calls_urls_but_for_starts_and_transcripts() {
        let url = Url::parse("http://127.0.0.1:8080/hooks/claude").unwrap();
        let made = handlers(NativeClient::Claude, &route(Some(&url)), false);
        for (event, handler) in made {
            let kind = if BY_COMMAND.contains(&event) { "command" } else { "http" };
            assert_eq!(handler["type"], kind, "{event}");
        }
        let codex = handlers(NativeClient::Codex, &route(Some(&url)), false);
        let expected = r"'/my bin/vmcp' hooks send codex --config '/it'\''s/vmcp.yaml'";
        assert!(codex.iter().all(|(_, handler)| handler["command"] == expected), "{codex:?}");
    }
}
