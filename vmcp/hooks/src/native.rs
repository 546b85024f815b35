//! Payloads of clients, as their own hooks send them, and answers in the clients' own schemas.
//!
//! Codex refuses an answer with a key that it does not know. So an answer has `hookSpecificOutput` only for
//! events that know it in both clients, and is `{}` otherwise.

use serde::Serialize;

use crate::hook_call::{self, HookCall, HookError};
use crate::report::HookReport;

/// Characters of a text for the model; Claude Code cuts longer ones at 10,000.
const MAX_CONTEXT_CHARS: usize = 9_000;
/// Most characters of the name of an event.
const MAX_EVENT_CHARS: usize = 64;
/// Words before a summary.
const INTRODUCTION: &str = "Summary of the work before this point, kept by vmcp:\n\n";

/// A client whose payloads are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NativeClient {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
}

/// Events of Claude Code 2.1 that belong to sessions.
const CLAUDE_EVENTS: [&str; 14] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "PostToolUseFailure",
    "Notification",
    "SubagentStart",
    "SubagentStop",
    "Stop",
    "StopFailure",
    "PreCompact",
    "PostCompact",
    "SessionEnd",
];

/// Events of Codex 0.171.
const CODEX_EVENTS: [&str; 12] = [
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "PreCompact",
    "PostCompact",
    "SubagentStart",
    "SubagentStop",
    "Stop",
    "Interrupt",
];

impl NativeClient {
    /// Returns the client of a name.
    pub fn from_name(name: &str) -> Option<NativeClient> {
        [NativeClient::Claude, NativeClient::Codex].into_iter().find(|client| client.name() == name)
    }

    /// Returns the name, which is also the source of its sessions.
    pub fn name(self) -> &'static str {
        match self {
            NativeClient::Claude => "claude",
            NativeClient::Codex => "codex",
        }
    }

    /// Returns the names of the client's events.
    pub fn events(self) -> &'static [&'static str] {
        match self {
            NativeClient::Claude => &CLAUDE_EVENTS,
            NativeClient::Codex => &CODEX_EVENTS,
        }
    }

    /// Reads a payload, a JSON object. `None`: an event outside of sessions, or of a newer client; it
    /// is passed over.
    pub fn read(self, payload: &str) -> Result<Option<HookCall>, HookError> {
        let payload = hook_call::fields(payload, "the hook")?;
        let name = "hook_event_name";
        let event = hook_call::text(&payload, name, name, MAX_EVENT_CHARS)?;
        let event = event.ok_or(HookError::Missing(name))?;
        if !self.events().contains(&event.as_str()) {
            return Ok(None);
        }
        HookCall::of_client(&event, self.name(), &payload).map(Some)
    }

    /// Returns a payload as the arguments of call_hook, for policies about that tool. An event without a name
    /// has the type of none.
    pub fn as_arguments(self, payload: &str) -> Result<String, HookError> {
        let fields = hook_call::fields(payload, "the hook")?;
        let event = fields.get("hook_event_name").map_or("null", |event| event.get());
        Ok(format!(r#"{{"hook_type":{event},"params":{payload},"source":"{}"}}"#, self.name()))
    }
}

/// Answer to a client's own hook.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NativeAnswer {
    #[serde(skip_serializing_if = "Option::is_none")]
    hook_specific_output: Option<HookSpecificOutput>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct HookSpecificOutput {
    hook_event_name: &'static str,
    additional_context: String,
}

impl NativeAnswer {
    /// Returns the answer to a hook: a start gets the summary that there is.
    pub fn new(report: &HookReport) -> NativeAnswer {
        let restored = report.result.restored_summary.as_ref().and_then(Option::as_deref);
        let output = restored.map(|summary| HookSpecificOutput {
            hook_event_name: "SessionStart",
            additional_context: INTRODUCTION.chars().chain(summary.chars()).take(MAX_CONTEXT_CHARS).collect(),
        });
        NativeAnswer { hook_specific_output: output }
    }
}
