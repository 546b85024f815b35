//! The last step of every reconcile: the status is written, then the transitions of its conditions become
//! events.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

use crate::runtime::context::Context;
use crate::runtime::watch::CustomResource;
use crate::runtime::write::CallError;

/// Writes the status if it changed, then publishes an event for each transition from the conditions `before`
/// to `now`.
pub(crate) async fn report<K: CustomResource>(
    context: &Context,
    object: &K,
    before: &[Condition],
    now: &[Condition],
    status: &impl Serialize,
) -> Result<(), CallError> {
    // The status first: if the object changed meanwhile, nothing was said yet, and the next reconcile says it
    // once.
    if context.write_status(object, status).await? {
        context.publish_transitions(object, before, now).await;
    }
    Ok(())
}
