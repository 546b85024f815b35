//! [`HookNews`]: facts about a hook that was taken, for programs that follow sessions.

use serde::Serialize;

use crate::hook_call::HookCall;
use crate::hook_type::HookType;
use crate::session::{Session, SessionStatus};

/// A hook that was taken, and its session after it. The title quotes the first prompt; further texts of
/// prompts, transcripts and summaries stay out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HookNews {
    /// Type.
    #[serde(skip)]
    pub hook_type: HookType,
    /// Id that vmcp gave the session.
    pub session_id: String,
    /// Id of the session at the client.
    pub external_id: String,
    /// The client's machine.
    pub machine_id: String,
    /// The client, in lower case.
    pub source: String,
    /// Project, or the working directory at the start; may be empty.
    pub project_id: String,
    /// State of the session.
    pub status: SessionStatus,
    /// Title of the session.
    pub title: Option<String>,
    /// Session that it took over from.
    pub parent_session_id: Option<String>,
    /// Name of the tool, the trigger, the subagent or the reason.
    pub detail: Option<String>,
}

impl HookNews {
    /// Picks the facts of a hook and its session.
    pub(crate) fn new(call: &HookCall, session: &Session) -> HookNews {
        HookNews {
            hook_type: call.hook_type,
            session_id: session.id.clone(),
            external_id: session.external_id.clone(),
            machine_id: session.machine_id.clone(),
            source: session.source.clone(),
            project_id: session.project_id.clone(),
            status: session.status,
            title: session.title.clone(),
            parent_session_id: session.parent_session_id.clone(),
            detail: call.params.detail.clone(),
        }
    }
}
