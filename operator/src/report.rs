//! Telling what became of a resource: in its status, and by events.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

use crate::runtime::{CallError, Context, Custom};

/// Writes the status when it changed, then an event for each transition from the conditions `before` to those of `now`.
pub async fn report<K: Custom>(
    context: &Context,
    object: &K,
    before: &[Condition],
    now: &[Condition],
    status: &impl Serialize,
) -> Result<(), CallError> {
    // The status first: when somebody else was quicker, nothing was said yet, and the next attempt says it.
    if context.write_status(object, status).await? {
        context.tell_transitions(object, before, now).await;
    }
    Ok(())
}
