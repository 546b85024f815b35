//! [`HookReport`]: the answer to a hook of `call_hook` and `POST /hooks/execute`.

use serde::Serialize;

use crate::decision::Decision;
use crate::hook_call::{HookCall, HookError};
use crate::hook_type::HookType;
use crate::news::HookNews;
use crate::session::SessionStatus;

/// The answer to a hook that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HookReport {
    success: bool,
    hook_type: String,
    normalized_type: &'static str,
    /// The session after the hook.
    pub result: HookResult,
    /// Facts for programs that follow sessions; the client reads them in `result`.
    #[serde(skip)]
    pub news: HookNews,
}

/// The session after a hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HookResult {
    /// Id that vmcp gave the session.
    pub session_id: String,
    /// Id of the session at the client.
    pub external_id: String,
    /// The client's machine.
    pub machine_id: String,
    /// State.
    pub status: SessionStatus,
    /// Title.
    pub title: Option<String>,
    /// Session that it took over from.
    pub parent_session_id: Option<String>,
    /// Of a start: the summary that the client goes on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored_summary: Option<Option<String>>,
    /// Of an end or a compaction: the session's own summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Option<String>>,
    /// Reason for which the transcript was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl HookReport {
    /// Reports a decision. `note` says why the transcript was not read.
    pub fn new(call: &HookCall, decision: Decision, note: Option<String>) -> HookReport {
        let Decision { session, restored_summary, .. } = decision;
        let is_start = call.hook_type == HookType::SessionStart;
        let is_summed = call.wants_summary() || call.hook_type == HookType::PostCompact;
        HookReport {
            success: true,
            hook_type: call.written_type.clone(),
            normalized_type: call.hook_type.normalized(),
            news: HookNews::new(call, &session),
            result: HookResult {
                session_id: session.id,
                external_id: session.external_id,
                machine_id: session.machine_id,
                status: session.status,
                title: session.title,
                parent_session_id: session.parent_session_id,
                restored_summary: is_start.then_some(restored_summary),
                summary: is_summed.then_some(session.summary),
                note,
            },
        }
    }
}

/// The answer to a hook that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HookFailure {
    success: bool,
    error: String,
    /// Types of hooks, if the type is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    available_types: Option<[&'static str; 16]>,
}

impl HookFailure {
    /// A failure of the server, in its words.
    pub fn of_server(error: impl Into<String>) -> HookFailure {
        HookFailure { success: false, error: error.into(), available_types: None }
    }
}

impl From<HookError> for HookFailure {
    fn from(error: HookError) -> HookFailure {
        let is_unknown = matches!(error, HookError::UnknownType(_));
        HookFailure {
            success: false,
            error: error.to_string(),
            available_types: is_unknown.then(HookType::available),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decision::{KnownSessions, Moment, decide};

    #[test]
    fn the_answer_has_the_fields_of_the_tool() {
        let call =
            json!({"hook_type": "SessionStart", "params": {"session_id": "codex-1"}, "source": "Codex"});
        let call = HookCall::read(&call.to_string()).unwrap();
        let moment = Moment { now: 0, new_id: "u".to_owned(), machine_id: "m".to_owned(), summary: None };
        let report = HookReport::new(&call, decide(&call, KnownSessions::default(), moment), None);
        assert_eq!(
            serde_json::to_value(report).unwrap(),
            json!({"success": true, "hook_type": "SessionStart", "normalized_type": "session-start", "result": {
                "session_id": "u", "external_id": "codex-1", "machine_id": "m", "status": "active",
                "title": null, "parent_session_id": null, "restored_summary": null,
            }})
        );
    }

    #[test]
    fn an_unknown_type_is_told_the_known_ones() {
        let failure =
            serde_json::to_value(HookFailure::from(HookError::UnknownType("x".to_owned()))).unwrap();
        assert_eq!(failure["success"], false);
        assert_eq!(failure["available_types"][3], "UserPromptSubmit");
        let other = serde_json::to_value(HookFailure::from(HookError::Missing("hook_type"))).unwrap();
        assert_eq!(other, json!({"success": false, "error": "hook_type is required"}));
    }
}
