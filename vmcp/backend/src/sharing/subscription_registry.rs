//! Reference-counted upstream subscriptions: resources by URI, tasks by id. The registry only counts;
//! [`subscribe`](crate::call::subscribe) and the notification stream put the counts in force.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::timeout;
use vmcp_json::text;

use crate::request::{CallError, RpcOutcome, Transmission, empty_object};
use crate::transport::LinkError;

/// Resources, and tasks, that may be subscribed to at one backend, as a backstop behind the shares of the
/// principals; one more is refused.
const MAX_TOPICS: usize = 10_000;
/// Bytes of one URI or task id; a longer one is refused.
const MAX_NAME_BYTES: usize = 8 * 1024;
/// Time for a modern server to confirm a subscription; then the subscriber gets a timeout.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Debug, Default)]
pub(crate) struct SubscriptionRegistry {
    wanted: Mutex<WantedTopics>,
    /// Version of the wanted topics, raised by every change of them.
    pub(crate) version: watch::Sender<u64>,
    /// The version that the modern server confirmed last.
    in_force: watch::Sender<ConfirmedVersion>,
}

#[derive(Debug, Default)]
struct WantedTopics {
    resources: HashMap<Box<str>, Arc<ResourceTopic>>,
    tasks: HashMap<Box<str>, usize>,
}

/// The version that a modern server confirmed last, or refused with the error.
#[derive(Debug, Default)]
pub(crate) struct ConfirmedVersion {
    pub(crate) version: u64,
    pub(crate) refusal: Option<Box<RawValue>>,
}

/// A resource with its subscribers.
#[derive(Debug)]
pub(crate) struct ResourceTopic {
    pub(crate) uri: Box<str>,
    /// Subscribers; changed only under the lock of [`WantedTopics`].
    count: Mutex<usize>,
    /// True if the backend was told. Held while it is told, so that subscribe and unsubscribe do not overtake
    /// each other.
    pub(crate) told: tokio::sync::Mutex<bool>,
}

impl ResourceTopic {
    pub(crate) fn is_wanted(&self) -> bool {
        *self.count.lock() > 0
    }
}

impl SubscriptionRegistry {
    /// Returns the version, `resourceSubscriptions` and `taskIds` of a filter as JSON arrays, each absent if
    /// empty.
    pub(crate) fn filter(&self) -> (u64, Option<String>, Option<String>) {
        let wanted = self.wanted.lock();
        let array = |entries: Vec<String>| (!entries.is_empty()).then(|| format!("[{}]", entries.join(",")));
        let resources = wanted.resources.values().filter(|topic| topic.is_wanted());
        let resources = array(resources.map(|topic| text::quoted(&topic.uri)).collect());
        let tasks = array(wanted.tasks.keys().map(|id| text::quoted(id)).collect());
        (*self.version.borrow(), resources, tasks)
    }

    /// Records that a modern server has confirmed, or refused, a version.
    pub(crate) fn confirm(&self, in_force: ConfirmedVersion) {
        self.in_force.send_replace(in_force);
    }

    pub(crate) fn topics(&self) -> Vec<Arc<ResourceTopic>> {
        let wanted = self.wanted.lock();
        wanted.resources.values().filter(|topic| topic.is_wanted()).cloned().collect()
    }

    pub(crate) fn count(&self, uri: &str) -> Result<Arc<ResourceTopic>, CallError> {
        let mut wanted = self.wanted.lock();
        if let Some(topic) = wanted.resources.get(uri) {
            let mut count = topic.count.lock();
            *count += 1;
            if *count == 1 {
                self.changed();
            }
            return Ok(Arc::clone(topic));
        }
        within_limits("resources", wanted.resources.len(), uri)?;
        let topic = Arc::new(ResourceTopic { uri: uri.into(), count: 1.into(), told: false.into() });
        wanted.resources.insert(uri.into(), Arc::clone(&topic));
        self.changed();
        Ok(topic)
    }

    /// Takes one count back; returns the topic if it was the last.
    pub(crate) fn discount(&self, uri: &str) -> Option<Arc<ResourceTopic>> {
        let wanted = self.wanted.lock();
        let topic = wanted.resources.get(uri)?;
        let mut count = topic.count.lock();
        *count = count.checked_sub(1)?;
        if *count > 0 {
            return None;
        }
        self.changed();
        Some(Arc::clone(topic))
    }

    pub(crate) fn forget(&self, topic: &Arc<ResourceTopic>) {
        let mut wanted = self.wanted.lock();
        let present = wanted.resources.get(&topic.uri).is_some_and(|present| Arc::ptr_eq(present, topic));
        if present && !topic.is_wanted() {
            wanted.resources.remove(&topic.uri);
        }
    }

    /// Counts a watcher of a task.
    pub(crate) fn watch(&self, id: &str) -> Result<(), CallError> {
        let mut wanted = self.wanted.lock();
        if let Some(count) = wanted.tasks.get_mut(id) {
            *count += 1;
            return Ok(());
        }
        within_limits("tasks", wanted.tasks.len(), id)?;
        wanted.tasks.insert(id.into(), 1);
        self.changed();
        Ok(())
    }

    /// Takes back one watcher of a task.
    pub(crate) fn unwatch(&self, id: &str) {
        let mut wanted = self.wanted.lock();
        let Some(count) = wanted.tasks.get_mut(id) else { return };
        *count -= 1;
        if *count == 0 {
            wanted.tasks.remove(id);
            self.changed();
        }
    }

    /// Waits until the notification stream has the topics wanted now in force.
    pub(crate) async fn confirmed(&self) -> Result<RpcOutcome, CallError> {
        let version = *self.version.borrow();
        let mut in_force = self.in_force.subscribe();
        let reached =
            timeout(CONFIRM_TIMEOUT, in_force.wait_for(|in_force| in_force.version >= version)).await;
        match reached {
            Ok(Ok(in_force)) => Ok(match &in_force.refusal {
                Some(error) => RpcOutcome::error(error),
                None => RpcOutcome::result(empty_object()),
            }),
            Ok(Err(_)) => Err(LinkError::Stopped.into()),
            Err(_) => Err(CallError::timeout(CONFIRM_TIMEOUT, Transmission::Unknown)),
        }
    }

    fn changed(&self) {
        self.version.send_modify(|version| *version += 1);
    }
}

fn within_limits(what: &str, count: usize, name: &str) -> Result<(), CallError> {
    let reason = match () {
        () if count >= MAX_TOPICS => {
            format!("more than {MAX_TOPICS} {what} of this backend are subscribed to")
        }
        () if name.len() > MAX_NAME_BYTES => format!("the name is longer than {MAX_NAME_BYTES} bytes"),
        () => return Ok(()),
    };
    Err(CallError::InvalidRequest { reason })
}
