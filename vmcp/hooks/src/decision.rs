//! [`decide`]: the change that a hook makes to its session.

use crate::hook_call::{HookCall, StartSource};
use crate::hook_type::HookType;
use crate::session::{Session, SessionStatus};
use crate::summary;
use crate::title;

/// Sessions that a decision depends on.
#[derive(Debug, Clone, Default)]
pub struct KnownSessions {
    /// The session of the hook; `None`: it is new.
    pub session: Option<Session>,
    /// The newest session of the same machine, client and project that waits for a hand-off.
    pub waiting: Option<Session>,
}

/// Facts that a decision cannot make itself.
#[derive(Debug, Clone)]
pub struct Moment {
    /// The present time, in milliseconds since the Unix epoch.
    pub now: i64,
    /// Id of the session, if it is new.
    pub new_id: String,
    /// Machine of the session, if it is new.
    pub machine_id: String,
    /// Summary of the transcript that came with the hook.
    pub summary: Option<String>,
}

/// The change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The session after the hook.
    pub session: Session,
    /// Id of a session whose summary is handed over: it expires.
    pub expires: Option<String>,
    /// Summary for the client: of the session before, or of this one after its context was compacted.
    pub restored_summary: Option<String>,
}

/// True if a hook may take over from a session that waits for a hand-off.
pub fn takes_over(call: &HookCall) -> bool {
    call.hook_type == HookType::SessionStart && call.params.start == StartSource::Clear
}

/// Decides about one hook. A session that no start has registered begins with the hook.
pub fn decide(call: &HookCall, known: KnownSessions, moment: Moment) -> Decision {
    let is_new = known.session.is_none();
    let mut session = known.session.unwrap_or_else(|| new_session(call, &moment));
    session.updated_at = moment.now;
    let client_summary = call.params.compact_summary.as_deref().and_then(summary::of_client);
    if let Some(summary) = moment.summary.or(client_summary) {
        session.summary = Some(summary);
    }
    let (mut expires, mut restored_summary) = (None, None);
    match call.hook_type {
        HookType::SessionStart => {
            session.status = SessionStatus::Active;
            session.cwd = call.params.cwd.clone().or(session.cwd);
            if is_new
                && takes_over(call)
                && let Some(parent) = known.waiting
            {
                session.parent_session_id = Some(parent.id.clone());
                restored_summary = parent.summary;
                expires = Some(parent.id);
            } else if call.params.start == StartSource::Compact {
                restored_summary.clone_from(&session.summary);
            }
        }
        HookType::PromptSubmit if call.is_command("/exit") => {}
        HookType::PromptSubmit if !call.hands_off() => {
            session.status = SessionStatus::Active;
            if session.title.is_none() {
                session.title = call.params.prompt.as_deref().and_then(title::of_prompt);
            }
        }
        HookType::SessionEnd | HookType::PromptSubmit => {
            session.status = match (session.status, &session.summary) {
                // The next session has its summary already.
                (SessionStatus::Expired, _) => SessionStatus::Expired,
                (_, Some(_)) => SessionStatus::HandoffReady,
                (_, None) => SessionStatus::Ended,
            };
        }
        HookType::Stop | HookType::Notification | HookType::StopFailure | HookType::Interrupt => {
            if session.status == SessionStatus::Active {
                session.status = SessionStatus::Paused;
            }
        }
        HookType::PreToolUse
        | HookType::PostToolUse
        | HookType::PostToolUseFailure
        | HookType::PermissionRequest
        | HookType::PreCompact
        | HookType::PostCompact
        | HookType::SubagentStart
        | HookType::SubagentStop => {}
    }
    Decision { session, expires, restored_summary }
}

fn new_session(call: &HookCall, moment: &Moment) -> Session {
    Session {
        id: moment.new_id.clone(),
        external_id: call.params.session_id.clone().unwrap_or_else(|| moment.new_id.clone()),
        machine_id: call.params.machine_id.clone().unwrap_or_else(|| moment.machine_id.clone()),
        source: call.source.clone(),
        project_id: call.project().to_owned(),
        title: None,
        status: SessionStatus::Active,
        parent_session_id: None,
        summary: None,
        cwd: call.params.cwd.clone(),
        created_at: moment.now,
        updated_at: moment.now,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn call(hook_type: &str, mut params: Value) -> HookCall {
        params["session_id"] = "s".into();
        HookCall::read(&json!({"hook_type": hook_type, "params": params}).to_string()).unwrap()
    }

    fn moment(summary: Option<&str>) -> Moment {
        let summary = summary.map(str::to_owned);
        Moment { now: 5, new_id: "new".to_owned(), machine_id: "m".to_owned(), summary }
    }

    fn after(session: &Session, call: &HookCall, summary: Option<&str>) -> Session {
        let known = KnownSessions { session: Some(session.clone()), waiting: None };
        decide(call, known, moment(summary)).session
    }

    fn started() -> Session {
        decide(&call("SessionStart", json!({"cwd": "/p"})), KnownSessions::default(), moment(None)).session
    }

    #[test]
    fn a_clear_takes_over_and_other_starts_do_not() {
        let parent = Session {
            id: "a".to_owned(),
            summary: Some("did it".to_owned()),
            status: SessionStatus::HandoffReady,
            ..started()
        };
        let start = |source: &str| {
            let known = KnownSessions { session: None, waiting: Some(parent.clone()) };
            decide(&call("SessionStart", json!({"source": source, "cwd": "/p"})), known, moment(None))
        };
        let cleared = start("clear");
        assert_eq!(cleared.session.parent_session_id.as_deref(), Some("a"));
        assert_eq!(cleared.restored_summary.as_deref(), Some("did it"));
        assert_eq!(cleared.expires.as_deref(), Some("a"));
        for source in ["startup", "resume", "fork", "compact"] {
            let started = start(source);
            assert_eq!((started.expires, started.restored_summary), (None, None), "{source}");
        }
    }

    #[test]
    fn a_resumed_session_stays_itself_and_a_compacted_one_gets_its_own_summary() {
        let ended = Session { status: SessionStatus::HandoffReady, ..started() };
        let resumed = after(&ended, &call("SessionStart", json!({"source": "resume"})), None);
        assert_eq!((resumed.id.as_str(), resumed.status), ("new", SessionStatus::Active));
        let compacted = after(&started(), &call("PostCompact", json!({"compact_summary": "so far"})), None);
        assert_eq!(compacted.summary.as_deref(), Some("so far"));
        let known = KnownSessions { session: Some(compacted), waiting: None };
        let again = decide(&call("SessionStart", json!({"source": "compact"})), known, moment(None));
        assert_eq!(again.restored_summary.as_deref(), Some("so far"));
    }

    #[test]
    fn the_end_is_a_hand_off_only_with_a_summary() {
        let end = call("SessionEnd", json!({}));
        assert_eq!(after(&started(), &end, None).status, SessionStatus::Ended);
        let ended = after(&started(), &end, Some("did it"));
        assert_eq!((ended.status, ended.summary.as_deref()), (SessionStatus::HandoffReady, Some("did it")));
        let cleared = after(&started(), &call("PromptSubmit", json!({"prompt": "/clear"})), Some("did it"));
        assert_eq!(cleared.status, SessionStatus::HandoffReady);
        let handed_over = Session { status: SessionStatus::Expired, ..ended };
        assert_eq!(after(&handed_over, &end, Some("late")).status, SessionStatus::Expired);
    }

    #[test]
    fn the_first_prompt_makes_the_title_and_prompts_and_stops_the_state() {
        let first =
            after(&started(), &call("PromptSubmit", json!({"prompt": "Help me refactor auth"})), None);
        assert_eq!(first.title.as_deref(), Some("Refactor auth"));
        let paused = after(&first, &call("Stop", json!({})), None);
        assert_eq!(paused.status, SessionStatus::Paused);
        let exit = after(&paused, &call("PromptSubmit", json!({"prompt": "/exit"})), None);
        assert_eq!(exit.status, SessionStatus::Paused);
        let second = after(&paused, &call("PromptSubmit", json!({"prompt": "Now the tests"})), None);
        assert_eq!((second.status, second.title), (SessionStatus::Active, first.title.clone()));
        assert_eq!(after(&first, &call("Notification", json!({})), None).status, SessionStatus::Paused);
        let ended = after(&first, &call("SessionEnd", json!({})), None);
        assert_eq!(
            after(&ended, &call("Stop", json!({})), None).status,
            SessionStatus::Ended,
            "it stays over"
        );
    }
}
