//! Progress of the first lists: the watches that have not listed yet, each with its last error.
//!
//! Nothing is reconciled before every watch has listed once, so that a single watch without rights, or of a
//! kind without definition, holds up everything. [`FirstLists::pending`] names it.

pub(super) mod optional_api;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tokio::sync::watch;

/// One watch: a kind, read as a resource or as a child, in one part of the scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WatchName {
    /// The kind as the API server spells it.
    pub(crate) kind: &'static str,
    /// True for the watch of the operator's own objects of the kind.
    pub(crate) is_child: bool,
    /// The namespace; `None` is the whole cluster.
    pub(crate) part: Option<String>,
}

/// The watches that have not listed yet.
pub(crate) struct FirstLists(watch::Sender<BTreeMap<WatchName, Option<String>>>);

impl FirstLists {
    /// Makes the list of `watches`, all of which are pending.
    pub(crate) fn awaiting(watches: impl IntoIterator<Item = WatchName>) -> Self {
        Self(watch::Sender::new(watches.into_iter().map(|name| (name, None)).collect()))
    }

    /// Records that a watch has listed.
    pub(super) fn complete(&self, watch: &WatchName) {
        self.0.send_if_modified(|pending| pending.remove(watch).is_some());
    }

    /// Records why a watch has not listed yet; ignores interruptions after the first list.
    pub(super) fn failed(&self, watch: &WatchName, error: &str) {
        self.0.send_if_modified(|pending| {
            if let Some(last) = pending.get_mut(watch) {
                *last = Some(error.to_owned());
            }
            false
        });
    }

    /// Waits until every watch has listed.
    pub(crate) async fn ready(&self) {
        // The sender lives in `self`, so that the wait cannot fail.
        let _ = self.0.subscribe().wait_for(BTreeMap::is_empty).await;
    }

    /// Returns the watches that have not listed yet, with their last errors; `None` once all have.
    pub(crate) fn pending(&self) -> Option<String> {
        let pending = self.0.borrow();
        let mut text = String::new();
        for (WatchName { kind, part, .. }, error) in pending.iter() {
            let separator = if text.is_empty() { "" } else { " | " };
            let place = part.as_ref().map(|part| format!(" in {part}")).unwrap_or_default();
            let error = error.as_deref().unwrap_or("no answer yet");
            // Writing to a string cannot fail.
            let _ = write!(text, "{separator}{kind}{place}: {error}");
        }
        (!text.is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watch_that_holds_up_everything_is_named() {
        let watch = |kind| WatchName { kind, is_child: false, part: Some("tools".to_owned()) };
        let lists = FirstLists::awaiting([watch("Pod"), watch("Secret")]);
        lists.complete(&watch("Pod"));
        lists.failed(&watch("Secret"), "secrets is forbidden");
        assert_eq!(lists.pending().as_deref(), Some("Secret in tools: secrets is forbidden"));
        lists.complete(&watch("Secret"));
        lists.failed(&watch("Secret"), "interrupted");
        assert_eq!(lists.pending(), None);
    }
}
