//! [`ServerEvents`]: hooks, changed definitions and states of backends as events, for people and programs
//! that watch this server.

use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use tokio::sync::{broadcast, watch};
use vmcp_backend::BackendState;
use vmcp_hooks::news::HookNews;
use vmcp_hooks::session::SessionStatus;
use vmcp_store::{DefinitionKind, RecordedChange};

/// Events that wait for a slow viewer; a viewer that is further behind has lost some.
const MAX_WAITING: usize = 1024;
/// Changes of one listing that are events of their own; of further ones only the number is told.
const MAX_CHANGES: usize = 200;
/// Most characters of a name in an event; a longer one is cut.
const MAX_NAME_CHARS: usize = 256;

/// The area of a [`ServerEvent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventArea {
    /// A coding agent reported a hook.
    Hooks,
    /// A backend lists another definition than before.
    Tools,
    /// A backend has another state than before.
    Backends,
}

impl EventArea {
    /// Every area.
    pub const ALL: [EventArea; 3] = [EventArea::Hooks, EventArea::Tools, EventArea::Backends];

    /// Returns the name in queries.
    pub fn as_str(self) -> &'static str {
        match self {
            EventArea::Hooks => "hooks",
            EventArea::Tools => "tools",
            EventArea::Backends => "backends",
        }
    }

    /// Reads the name in a query.
    pub fn from_name(name: &str) -> Option<EventArea> {
        EventArea::ALL.into_iter().find(|area| area.as_str() == name)
    }
}

/// One event. It holds neither prompts, arguments, results nor addresses.
#[derive(Debug, Clone)]
pub struct ServerEvent {
    /// Area.
    pub area: EventArea,
    /// The event as a JSON object: `type`, `at`, and what belongs to the type.
    pub json: Arc<str>,
}

/// The events of a process; cheap to send without a viewer.
#[derive(Debug)]
pub struct ServerEvents {
    events: broadcast::Sender<ServerEvent>,
    states: watch::Sender<()>,
}

impl Default for ServerEvents {
    fn default() -> ServerEvents {
        ServerEvents { events: broadcast::Sender::new(MAX_WAITING), states: watch::Sender::default() }
    }
}

/// The content of an event.
#[derive(Serialize)]
struct Written<'a> {
    r#type: &'a str,
    /// RFC 3339, in UTC.
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    #[serde(flatten)]
    details: Details<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Details<'a> {
    Hook {
        session_id: &'a str,
        source: &'a str,
        status: SessionStatus,
        /// The tool, trigger, subagent or reason.
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<&'a str>,
    },
    Tool {
        tool: &'a str,
        change: &'static str,
        /// Hash of the definition before.
        #[serde(skip_serializing_if = "Option::is_none")]
        before: Option<&'a str>,
        /// Hash of the definition after.
        #[serde(skip_serializing_if = "Option::is_none")]
        after: Option<&'a str>,
    },
    Definition {
        definition: &'static str,
        name: &'a str,
        change: &'static str,
    },
    More {
        /// Changed definitions without an event of their own.
        more: usize,
    },
    State {
        state: &'static str,
    },
}

impl ServerEvents {
    /// Receives the events from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<ServerEvent> {
        self.events.subscribe()
    }

    /// Watches for backends that have another state than before.
    pub fn states(&self) -> watch::Receiver<()> {
        self.states.subscribe()
    }

    /// Tells of a hook that was taken.
    pub fn hook(&self, news: &HookNews) {
        let details = Details::Hook {
            session_id: &news.session_id,
            source: &news.source,
            status: news.status,
            detail: news.detail.as_deref(),
        };
        self.send(EventArea::Hooks, news.hook_type.normalized(), None, details);
    }

    /// Tells of changed definitions, which are all of one backend.
    pub fn definitions(&self, changes: &[RecordedChange]) {
        for RecordedChange { backend, definition: (kind, name), kind: change, before, after, .. } in
            changes.iter().take(MAX_CHANGES)
        {
            let (name, change) = (cut(name), change.as_str());
            let (before, after) = (before.as_deref(), after.as_deref());
            let (of, details) = match kind {
                DefinitionKind::Tool => ("tool-changed", Details::Tool { tool: name, change, before, after }),
                DefinitionKind::Prompt | DefinitionKind::Resource | DefinitionKind::ResourceTemplate => {
                    let definition = kind.as_str();
                    ("definition-changed", Details::Definition { definition, name, change })
                }
            };
            self.send(EventArea::Tools, of, Some(backend), details);
        }
        if let Some(first) = changes.get(MAX_CHANGES) {
            let details = Details::More { more: changes.len() - MAX_CHANGES };
            self.send(EventArea::Tools, "definitions-changed", Some(&first.backend), details);
        }
    }

    /// Tells of the state of a backend.
    pub fn state(&self, backend: &str, state: BackendState) {
        self.states.send_replace(());
        let details = Details::State { state: state.as_str() };
        self.send(EventArea::Backends, "backend-state", Some(backend), details);
    }

    fn send(&self, area: EventArea, of: &str, server: Option<&str>, details: Details<'_>) {
        if self.events.receiver_count() == 0 {
            return;
        }
        let at = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        // Strings and numbers always serialize.
        let Ok(json) = serde_json::to_string(&Written { r#type: of, at, server, details }) else { return };
        // The last viewer may have left meanwhile.
        let _ = self.events.send(ServerEvent { area, json: json.into() });
    }
}

fn cut(name: &str) -> &str {
    name.char_indices().nth(MAX_NAME_CHARS).and_then(|(end, _)| name.get(..end)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use vmcp_hooks::decision::{KnownSessions, Moment, decide};
    use vmcp_hooks::hook_call::HookCall;
    use vmcp_hooks::report::HookReport;
    use vmcp_store::ChangeKind;

    use super::*;

    fn next(events: &mut broadcast::Receiver<ServerEvent>) -> (EventArea, Value) {
        let event = events.try_recv().unwrap();
        let mut json: Value = serde_json::from_str(&event.json).unwrap();
        assert!(json.as_object_mut().unwrap().remove("at").unwrap().as_str().unwrap().ends_with('Z'));
        (event.area, json)
    }

    fn change(kind: DefinitionKind, name: &str) -> RecordedChange {
        RecordedChange {
            backend: "jira".to_owned(),
            definition: (kind, name.to_owned()),
            kind: ChangeKind::Updated,
            before: Some("b".to_owned()),
            after: Some("a".to_owned()),
            at: 0,
        }
    }

    #[test]
    fn states_and_definitions_are_told_to_those_who_watch() {
        let events = ServerEvents::default();
        events.state("jira", BackendState::Connected);
        let mut watching = events.subscribe();
        events.state("jira", BackendState::Failed);
        let failed = json!({"type": "backend-state", "server": "jira", "state": "failed"});
        assert_eq!(next(&mut watching), (EventArea::Backends, failed));
        events.definitions(&[change(DefinitionKind::Tool, "t"), change(DefinitionKind::Prompt, "p")]);
        let tool = json!({
            "type": "tool-changed", "server": "jira", "tool": "t", "change": "updated", "before": "b", "after": "a",
        });
        assert_eq!(next(&mut watching), (EventArea::Tools, tool));
        let prompt = json!({
            "type": "definition-changed", "server": "jira", "definition": "prompt", "name": "p", "change": "updated",
        });
        assert_eq!(next(&mut watching), (EventArea::Tools, prompt));
    }

    #[test]
    fn a_listing_that_changes_as_a_whole_is_counted_and_long_names_are_cut() {
        let (events, long) = (ServerEvents::default(), "é".repeat(MAX_NAME_CHARS + 1));
        let mut watching = events.subscribe();
        events.definitions(&vec![change(DefinitionKind::Tool, &long); MAX_CHANGES + 3]);
        let (_, first) = next(&mut watching);
        assert_eq!(first["tool"].as_str().unwrap().chars().count(), MAX_NAME_CHARS);
        let last = (1..=MAX_CHANGES).map(|_| next(&mut watching)).last().unwrap().1;
        assert_eq!(last, json!({"type": "definitions-changed", "server": "jira", "more": 3}));
        assert!(watching.try_recv().is_err());
    }

    #[test]
    fn a_hook_is_told_without_what_people_wrote() {
        let hook = json!({"hook_type": "UserPromptSubmit", "source": "Claude",
            "params": {"session_id": "s", "prompt": "a secret plan", "cwd": "/home/me"}});
        let call = HookCall::read(&hook.to_string()).unwrap();
        let moment = Moment { now: 0, new_id: "u".to_owned(), machine_id: "m".to_owned(), summary: None };
        let report = HookReport::new(&call, decide(&call, KnownSessions::default(), moment), None);
        let events = ServerEvents::default();
        let mut watching = events.subscribe();
        events.hook(&report.news);
        let told =
            json!({"type": "user-prompt-submit", "session_id": "u", "source": "claude", "status": "active"});
        assert_eq!(next(&mut watching), (EventArea::Hooks, told));
    }
}
