//! Conditions of a status: each keeps its `lastTransitionTime` until its status changes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// The longest message in bytes; a longer one is cut off with `…`. The schema allows 32 KiB.
const MAX_MESSAGE_BYTES: usize = 2048;

/// The conditions of an object. Each reconcile builds them from the conditions in its status.
///
/// A condition with an unchanged status (`True`, `False`, `Unknown`) keeps its `lastTransitionTime`, also
/// with another reason or message. A condition that is not set again is removed.
///
/// ```
/// # use vmcp_operator::runtime::Conditions;
/// let mut conditions = Conditions::new(&[], 3);
/// conditions.set("Ready", true, "PodsReady", "1 of 2 pods are ready");
/// let before = conditions.finish();
/// assert_eq!(before[0].observed_generation, Some(3));
///
/// let mut conditions = Conditions::new(&before, 4);
/// conditions.set("Ready", true, "PodsReady", "2 of 2 pods are ready");
/// let now = conditions.finish();
/// // No transition: still ready.
/// assert_eq!(now[0].last_transition_time, before[0].last_transition_time);
/// assert_eq!(now[0].message, "2 of 2 pods are ready");
/// ```
#[derive(Debug)]
pub struct Conditions {
    before: Vec<Condition>,
    now: Vec<Condition>,
    generation: i64,
}

impl Conditions {
    /// Starts from the conditions in the object's status; `generation` is the object's `metadata.generation`.
    pub fn new(before: &[Condition], generation: i64) -> Self {
        Self { before: before.to_vec(), now: Vec::new(), generation }
    }

    /// Sets a condition to `True` or `False`. `reason` is one CamelCase word; `message` tells a person the
    /// remedy if something is wrong.
    pub fn set(&mut self, kind: &str, status: bool, reason: &str, message: impl Into<String>) {
        self.put(kind, if status { "True" } else { "False" }, reason, message.into());
    }

    /// Sets a condition to `Unknown`: nothing is known about it (yet).
    pub fn unknown(&mut self, kind: &str, reason: &str, message: impl Into<String>) {
        self.put(kind, "Unknown", reason, message.into());
    }

    /// Keeps a condition as it was, if there was one; for reconciles that learned nothing new about it.
    pub fn keep(&mut self, kind: &str) {
        if let Some(condition) = self.before.iter().find(|condition| condition.type_ == kind) {
            let condition = condition.clone();
            self.insert(condition);
        }
    }

    fn put(&mut self, kind: &str, status: &str, reason: &str, mut message: String) {
        if message.len() > MAX_MESSAGE_BYTES {
            message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES - 3));
            message.push('…');
        }
        let since = self
            .before
            .iter()
            .find(|condition| condition.type_ == kind && condition.status == status)
            .map_or_else(|| Time(Timestamp::now()), |condition| condition.last_transition_time.clone());
        self.insert(Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: since,
            observed_generation: Some(self.generation),
        });
    }

    fn insert(&mut self, condition: Condition) {
        match self.now.iter_mut().find(|existing| existing.type_ == condition.type_) {
            Some(existing) => *existing = condition,
            None => self.now.push(condition),
        }
    }

    /// Returns the conditions in the order in which they were set.
    pub fn finish(self) -> Vec<Condition> {
        self.now
    }
}

/// Returns true if there is a condition of this type with status `True`.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    conditions.iter().any(|condition| condition.type_ == kind && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time(Timestamp::from_second(seconds).expect("in range"))
    }

    #[test]
    fn a_transition_is_a_change_of_status_and_of_nothing_else() {
        let mut first = Conditions::new(&[], 1);
        first.set("Ready", false, "Waiting", "no pod yet");
        let mut before = first.finish();
        before[0].last_transition_time = at(1000);

        let mut same = Conditions::new(&before, 2);
        same.set("Ready", false, "PodsFailing", "image cannot be pulled");
        let same = same.finish();
        assert_eq!(same[0].last_transition_time, at(1000));
        assert_eq!((same[0].reason.as_str(), same[0].observed_generation), ("PodsFailing", Some(2)));

        let mut changed = Conditions::new(&same, 2);
        changed.set("Ready", true, "PodsReady", "1 of 1");
        assert_ne!(changed.finish()[0].last_transition_time, at(1000));
    }

    #[test]
    fn what_is_not_set_again_is_gone() {
        let mut first = Conditions::new(&[], 1);
        first.set("Ready", true, "PodsReady", "");
        first.set("EmbeddingServerReady", true, "Ready", "");
        let before = first.finish();
        let mut second = Conditions::new(&before, 1);
        second.keep("Ready");
        assert_eq!(second.finish(), before[..1]);
    }
}
