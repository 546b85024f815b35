//! Translates notifications on their way from a backend to a client.

use serde_json::value::RawValue;
use vmcp_json::json_rope::JsonRope;

use super::TranslateError;
use crate::message::era::Era;
use crate::message::methods;
use crate::message::{meta, meta::PROGRESS_TOKEN};
use crate::message::{params::Params, params::ParamsError};

/// The changes of a notification.
#[derive(Debug, Clone, Copy, Default)]
pub struct NotificationPlan<'a> {
    /// The era of the client.
    pub to: Era,
    /// The client's progress token, as JSON; replaces the token that the backend was given.
    pub progress_token: Option<&'a RawValue>,
    /// The id of the client's `subscriptions/listen` request, on whose stream the notification goes; `None`
    /// on any other stream, where no notification may have one.
    pub subscription_id: Option<&'a RawValue>,
}

/// A translated notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Translated<'a> {
    /// The notification does not exist in the client's era.
    Dropped,
    /// The parameters, if the notification has any.
    Params(Option<JsonRope<'a>>),
}

/// Translates a notification for the client.
///
/// ```
/// use vmcp_wire::era::Era;
/// use vmcp_wire::translate::{NotificationPlan, Translated, notification};
///
/// let plan = NotificationPlan { to: Era::Modern, ..Default::default() };
/// assert_eq!(notification("notifications/tasks/status", None, &plan)?, Translated::Dropped);
/// assert_eq!(notification("notifications/tools/list_changed", None, &plan)?, Translated::Params(None));
/// # Ok::<(), vmcp_wire::translate::TranslateError>(())
/// ```
pub fn notification<'a>(
    method: &str,
    params: Option<&'a RawValue>,
    plan: &NotificationPlan<'a>,
) -> Result<Translated<'a>, TranslateError> {
    if !methods::exists(method, plan.to) {
        return Ok(Translated::Dropped);
    }
    let params = Params::parse(params).map_err(|error| match error {
        ParamsError::Params(reason) | ParamsError::Meta(reason) => {
            TranslateError::Malformed { part: "params", reason }
        }
    })?;
    let mut edit = params.object.edit();
    if let (methods::PROGRESS, Some(token)) = (method, plan.progress_token) {
        edit.set(PROGRESS_TOKEN, token);
    }
    let mut inner = params.meta.object().edit();
    match (plan.to, plan.subscription_id) {
        (Era::Modern, Some(id)) => _ = inner.set(meta::SUBSCRIPTION_ID, id),
        _ => _ = inner.remove(meta::SUBSCRIPTION_ID),
    }
    meta::put_back(&mut edit, inner);
    Ok(Translated::Params((params.present || !edit.is_unchanged()).then(|| edit.finish())))
}
