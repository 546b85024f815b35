//! Parameters on their way from a client to a backend.

use vmcp_json::json_rope::JsonRope;
use vmcp_json::text;

use crate::message::params::Params;
use crate::message::{keys::INPUT_RESPONSES, keys::REQUEST_STATE};
use crate::message::{meta, meta::Outgoing, meta::Stamp};
use crate::message::{methods, subject};

/// What changes in a request.
#[derive(Debug, Clone, Default)]
pub struct RequestPlan<'a> {
    /// The backend's name (or URI) for what the request is about; `None` keeps the client's.
    pub subject: Option<&'a str>,
    /// The metadata; its stamp says which era the backend belongs to.
    pub meta: Outgoing<'a>,
    /// What becomes of `requestState`.
    pub request_state: RequestState<'a>,
}

/// What becomes of the `requestState` that a modern client sends back.
#[derive(Debug, Clone, Copy, Default)]
pub enum RequestState<'a> {
    /// It goes on as it is.
    #[default]
    Keep,
    /// The state was ours alone.
    Remove,
    /// The backend's own, which ours was wrapped around.
    Replace(&'a str),
}

/// The parameters for the backend; `None` where a legacy backend needs none.
#[must_use]
pub fn request<'a>(method: &str, params: &Params<'a>, plan: &RequestPlan<'a>) -> Option<JsonRope<'a>> {
    let mut edit = params.object.edit();
    if let Some(subject) = plan.subject {
        subject::set(method, &params.object, &mut edit, subject);
    }
    match plan.meta.stamp {
        Stamp::Legacy if methods::may_require_input(method) => {
            edit.remove(INPUT_RESPONSES).remove(REQUEST_STATE);
        }
        Stamp::Legacy => {}
        Stamp::Modern { .. } => {
            // Asks for a task by the rules of 2025-11-25; the modern extension leaves that to the server.
            if method == methods::TOOLS_CALL {
                edit.remove("task");
            }
            match plan.request_state {
                RequestState::Keep => {}
                RequestState::Remove => _ = edit.remove(REQUEST_STATE),
                RequestState::Replace(state) => _ = edit.set(REQUEST_STATE, text::quoted(state)),
            }
        }
    }
    meta::put_back(&mut edit, plan.meta.edit(&params.meta));
    (params.present || !edit.is_unchanged()).then(|| edit.finish())
}
