//! Resources and tasks that clients want to hear of, counted by URI and id.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::timeout;
use vmcp_json::text;

use crate::request::{CallError, RpcOutcome, empty_object};
use crate::transport::LinkError;

/// URIs and task ids of one backend, each kind; and how long one may be, in bytes.
const MAX_TOPICS: usize = 1000;
const MAX_NAME_BYTES: usize = 8 * 1024;
/// How long a modern server may take to confirm a subscription that it was asked for.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Debug, Default)]
pub(crate) struct SubscriptionRegistry {
    wanted: Mutex<WantedTopics>,
    /// Counts the changes of what is wanted.
    pub(crate) version: watch::Sender<u64>,
    /// What a modern server has confirmed.
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

/// A resource that somebody wants to hear of.
#[derive(Debug)]
pub(crate) struct ResourceTopic {
    pub(crate) uri: Box<str>,
    /// Changed under the lock of `WantedTopics` only.
    count: Mutex<usize>,
    /// Whether the backend knows. Held while it is told, so that orders do not overtake each other.
    pub(crate) told: tokio::sync::Mutex<bool>,
}

impl ResourceTopic {
    pub(crate) fn is_wanted(&self) -> bool {
        *self.count.lock() > 0
    }
}

impl SubscriptionRegistry {
    /// `resourceSubscriptions` and `taskIds` as JSON arrays, each absent when empty, and their version.
    pub(crate) fn filter(&self) -> (u64, Option<String>, Option<String>) {
        let wanted = self.wanted.lock();
        let array = |entries: Vec<String>| (!entries.is_empty()).then(|| format!("[{}]", entries.join(",")));
        let resources = wanted.resources.values().filter(|topic| topic.is_wanted());
        let resources = array(resources.map(|topic| text::quoted(&topic.uri)).collect());
        let tasks = array(wanted.tasks.keys().map(|id| text::quoted(id)).collect());
        (*self.version.borrow(), resources, tasks)
    }

    /// A modern server has confirmed, or refused, what was wanted.
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

    /// Takes one count back. The topic, when it was the last.
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

    /// Starts to watch a task.
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

    /// Ends one watch of a task.
    pub(crate) fn unwatch(&self, id: &str) {
        let mut wanted = self.wanted.lock();
        let Some(count) = wanted.tasks.get_mut(id) else { return };
        *count -= 1;
        if *count == 0 {
            wanted.tasks.remove(id);
            self.changed();
        }
    }

    /// Waits until the listener has what is wanted now in force.
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
            Err(_) => Err(CallError::Timeout { after: CONFIRM_TIMEOUT }),
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
