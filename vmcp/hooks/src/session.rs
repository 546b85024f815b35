//! [`Session`]: a session of a coding agent, and its [`SessionEvent`]s.

use std::time::{Duration, UNIX_EPOCH};

use serde::{Serialize, Serializer};

/// State of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// The person works in it.
    Active,
    /// The agent waits for the person.
    Paused,
    /// It is over, and left no summary.
    Ended,
    /// It is over, and its summary waits for the next session.
    HandoffReady,
    /// It is over, and the next session has its summary.
    Expired,
}

impl SessionStatus {
    /// All states.
    const ALL: [SessionStatus; 5] = [
        SessionStatus::Active,
        SessionStatus::Paused,
        SessionStatus::Ended,
        SessionStatus::HandoffReady,
        SessionStatus::Expired,
    ];

    /// Returns the name, as it is stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            SessionStatus::Active => "active",
            SessionStatus::Paused => "paused",
            SessionStatus::Ended => "ended",
            SessionStatus::HandoffReady => "handoff_ready",
            SessionStatus::Expired => "expired",
        }
    }

    /// Returns the state of a name.
    pub fn from_name(name: &str) -> Option<SessionStatus> {
        SessionStatus::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Session {
    /// Id that vmcp gave it.
    pub id: String,
    /// Id at the client.
    pub external_id: String,
    /// The client's machine.
    pub machine_id: String,
    /// The client, in lower case.
    pub source: String,
    /// Project, or the working directory at the start; may be empty.
    pub project_id: String,
    /// Title, made of the first prompt.
    pub title: Option<String>,
    /// State.
    pub status: SessionStatus,
    /// Session that it took over from.
    pub parent_session_id: Option<String>,
    /// Summary in Markdown; absent in lists of sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Working directory.
    pub cwd: Option<String>,
    /// Begin, in milliseconds since the Unix epoch.
    #[serde(serialize_with = "as_time")]
    pub created_at: i64,
    /// Last hook, in milliseconds since the Unix epoch.
    #[serde(serialize_with = "as_time")]
    pub updated_at: i64,
}

/// A hook of a session, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionEvent {
    /// Normalized type of the hook.
    #[serde(rename = "type")]
    pub hook_type: String,
    /// Name of the tool, the trigger, the subagent or the reason.
    pub detail: Option<String>,
    /// Time, in milliseconds since the Unix epoch.
    #[serde(serialize_with = "as_time")]
    pub at: i64,
}

/// Writes a time of RFC 3339.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn as_time<S: Serializer>(millis: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    let since = Duration::from_millis(u64::try_from(*millis).unwrap_or_default());
    let time = UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH);
    serializer.collect_str(&humantime::format_rfc3339_millis(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_stored_by_the_names_that_are_shown() {
        for status in SessionStatus::ALL {
            assert_eq!(SessionStatus::from_name(status.name()), Some(status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.name());
        }
        assert_eq!(SessionStatus::from_name("other"), None);
    }

    #[test]
    fn times_are_written_for_people() {
        let event = SessionEvent { hook_type: "stop".to_owned(), detail: None, at: 1_700_000_000_123 };
        let written = serde_json::to_string(&event).unwrap();
        assert_eq!(written, r#"{"type":"stop","detail":null,"at":"2023-11-14T22:13:20.123Z"}"#);
    }
}
