//! Events: one for each transition of a condition, none for anything else, so that `kubectl describe` reads
//! like a history.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use kube::runtime::events::{Event, EventType};

use crate::runtime::context::Context;
use crate::runtime::write::CALL_TIMEOUT;
use vmcp_error_chain::error_chain;

/// Conditions that are bad news if they are true.
const NEGATIVE: &[&str] = &["Degraded", "Stalled"];
/// Conditions that are neutral in each state.
const NEUTRAL: &[&str] = &["Reconciling", "FieldsPending", "Paused"];
/// Reasons of a `False` condition that are expected.
const EXPECTED: &[&str] = &["Starting", "ScaledToZero"];
/// The longest note in bytes that the API server accepts; a longer one is cut off.
const MAX_NOTE_BYTES: usize = 1024;

impl Context {
    /// Publishes an event for every condition whose status or reason changed. Best effort: a lost event is
    /// not sent again.
    pub async fn publish_transitions<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        before: &[Condition],
        now: &[Condition],
    ) {
        for event in transitions(before, now) {
            self.publish(object, event).await;
        }
    }

    /// Publishes an event about an object; a replica that does not lead publishes nothing.
    async fn publish<K: Resource<DynamicType = ()>>(&self, object: &K, event: Event) {
        if !self.leadership.holds() {
            return;
        }
        let reference = ObjectReference {
            api_version: Some(self.resource_of::<K>().api_version),
            ..object.object_ref(&())
        };
        let publish = self.recorder.publish(&event, &reference);
        match tokio::time::timeout(CALL_TIMEOUT, publish).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!(reason = event.reason, error = %error_chain(&error), "event lost");
            }
            Err(_) => {
                tracing::debug!(reason = event.reason, "event lost: the API server took too long");
            }
        }
    }
}

/// Returns the event of each condition that is new or whose status or reason changed.
fn transitions(before: &[Condition], now: &[Condition]) -> Vec<Event> {
    let mut said = HashSet::new();
    now.iter()
        .filter(|condition| match before.iter().find(|known| known.type_ == condition.type_) {
            Some(known) => known.status != condition.status || known.reason != condition.reason,
            // A condition that is good from the beginning gets no event, except for `Ready`, which sums up.
            None => is_bad(condition) || condition.type_ == "Ready" && condition.status == "True",
        })
        // `Degraded` and `Valid` repeat the reason or the message of another condition: one event is enough.
        // `&`, not `&&`: both words are to be remembered.
        .filter(|condition| said.insert(condition.reason.as_str()) & said.insert(condition.message.as_str()))
        .map(|condition| Event {
            type_: if is_bad(condition) { EventType::Warning } else { EventType::Normal },
            reason: condition.reason.clone(),
            note: Some(shorten(&condition.message)),
            action: condition.type_.clone(),
            secondary: None,
        })
        .collect()
}

fn is_bad(condition: &Condition) -> bool {
    if EXPECTED.contains(&condition.reason.as_str()) || NEUTRAL.contains(&condition.type_.as_str()) {
        return false;
    }
    let bad = if NEGATIVE.contains(&condition.type_.as_str()) { "True" } else { "False" };
    condition.status == bad
}

fn shorten(message: &str) -> String {
    let end = message.floor_char_boundary(MAX_NOTE_BYTES);
    message.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::tell::Conditions;

    fn conditions(ready: (bool, &str), degraded: bool) -> Vec<Condition> {
        let mut conditions = Conditions::new(&[], 1);
        conditions.set("Ready", ready.0, ready.1, "how");
        conditions.set("Degraded", degraded, "Backends", "why");
        conditions.set("Valid", !degraded, "ConfigInvalid", "why");
        conditions.finish()
    }

    #[test]
    fn only_transitions_are_events() {
        let waiting = conditions((false, "Waiting"), false);
        assert_eq!(transitions(&[], &waiting).len(), 1);
        assert_eq!(transitions(&[], &conditions((false, "Starting"), false)).len(), 0);
        assert!(transitions(&waiting, &waiting).is_empty());

        let degraded = transitions(&waiting, &conditions((true, "Serving"), true));
        let kinds: Vec<_> = degraded.iter().map(|event| (event.action.as_str(), event.type_)).collect();
        assert_eq!(kinds, [("Ready", EventType::Normal), ("Degraded", EventType::Warning)]);
    }
}
