//! Handlers in a client's file of hooks: commands that send the hook, and URLs where the client calls them
//! itself.

use std::path::Path;

use serde_json::{Value, json};
use url::Url;
use vmcp_hooks::native::NativeClient;

use super::is_loopback;

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

/// True for a handler that [`handlers`] made: a command of vmcp, the URL of the `current` server, or that of
/// a server on this machine, whose port may have changed. URLs of other machines are other programs' hooks.
pub(super) fn is_own(client: NativeClient, handler: &Value, current: Option<&Url>) -> bool {
    let text = |key: &str| handler.get(key).and_then(Value::as_str).unwrap_or_default();
    let sends = format!(" hooks send {}", client.name());
    let is_command = text("command").contains(&sends) && text("command").contains("vmcp");
    let path = format!("/hooks/{}", client.name());
    let is_local = |url: &Url| is_loopback(url) && url.path() == path && url.query().is_none();
    is_command || Url::parse(text("url")).is_ok_and(|url| current == Some(&url) || is_local(&url))
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
                assert!(is_own(client, handler, None), "{handler}");
            }
            assert!(
                !made.iter().any(|(_, handler)| is_own(NativeClient::Codex, handler, None)
                    != (client == NativeClient::Codex))
            );
            assert_eq!(made.len() - handlers(client, &route(url), false).len(), 2);
        }
        assert!(!is_own(NativeClient::Claude, &json!({"type": "command", "command": "beep"}), None));
    }

    #[test]
    fn a_url_of_another_machine_is_own_only_if_it_is_the_current_one() {
        let current = Url::parse("http://192.0.2.1:8080/hooks/claude").unwrap();
        for (url, expected) in [
            ("http://192.0.2.1:8080/hooks/claude", true),
            ("http://localhost:9/hooks/claude", true),
            ("http://[::1]:9/hooks/claude", true),
            ("http://127.0.0.1:9/other/hooks/claude", false),
            ("http://127.0.0.1:9/hooks/claude?of=another", false),
            ("http://192.0.2.2:8080/hooks/claude", false),
            ("https://hooks.example.com/hooks/claude", false),
        ] {
            let handler = json!({"type": "http", "url": url});
            assert_eq!(is_own(NativeClient::Claude, &handler, Some(&current)), expected, "{url}");
        }
    }

    #[test]
    fn claude_calls_urls_but_for_starts_and_transcripts() {
        let url = Url::parse("http://127.0.0.1:8080/hooks/claude").unwrap();
        let made = handlers(NativeClient::Claude, &route(Some(&url)), false);
        assert_eq!(made.len(), EVENTS.len() + CLAUDE_EVENTS.len());
        for (event, handler) in made {
            let kind = if BY_COMMAND.contains(&event) { "command" } else { "http" };
            assert_eq!(handler["type"], kind, "{event}");
        }
        let codex = handlers(NativeClient::Codex, &route(Some(&url)), false);
        assert_eq!(codex.len(), EVENTS.len() + CODEX_EVENTS.len());
        let expected = r"'/my bin/vmcp' hooks send codex --config '/it'\''s/vmcp.yaml'";
        assert!(codex.iter().all(|(_, handler)| handler["command"] == expected), "{codex:?}");
    }
}
