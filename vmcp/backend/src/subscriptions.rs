//! Who wants to hear of a resource or a task: counted by URI and id, and in force on whatever the main connection is.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::timeout;
use vmcp_json::text;
use vmcp_wire::era::Era;
use vmcp_wire::rpc::{self, RpcError};
use vmcp_wire::{codes, methods};

use crate::call;
use crate::connection::empty_object;
use crate::error::LinkError;
use crate::event::Event;
use crate::listener::Listener;
use crate::request::{CallError, DEFAULT_DEADLINE, Outcome, Request};
use crate::shared::Shared;

/// URIs and task ids of one backend, each kind; and how long one may be, in bytes.
const MOST: usize = 1000;
const LONGEST: usize = 8 * 1024;
/// How long a modern server may take to confirm a subscription that it was asked for.
const CONFIRM: Duration = Duration::from_secs(15);

#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    wanted: Mutex<Wanted>,
    /// Counts the changes of what is wanted.
    pub(crate) version: watch::Sender<u64>,
    /// What a modern server has confirmed.
    in_force: watch::Sender<InForce>,
}

#[derive(Debug, Default)]
struct Wanted {
    resources: HashMap<Box<str>, Arc<Topic>>,
    tasks: HashMap<Box<str>, usize>,
}

/// The version that a modern server confirmed last, or refused with the error.
#[derive(Debug, Default)]
pub(crate) struct InForce {
    pub(crate) version: u64,
    pub(crate) refusal: Option<Box<RawValue>>,
}

/// A resource that somebody wants to hear of.
#[derive(Debug)]
struct Topic {
    uri: Box<str>,
    /// Changed under the lock of `Wanted` only.
    count: Mutex<usize>,
    /// Whether the backend knows. Held while it is told, so that orders do not overtake each other.
    told: tokio::sync::Mutex<bool>,
}

impl Topic {
    fn is_wanted(&self) -> bool {
        *self.count.lock() > 0
    }
}

/// One count of a topic; given back when dropped.
struct Reference<'a> {
    shared: &'a Arc<Shared>,
    topic: Arc<Topic>,
    kept: bool,
}

impl Drop for Reference<'_> {
    fn drop(&mut self) {
        if !self.kept {
            unsubscribe(self.shared, &self.topic.uri);
        }
    }
}

impl Subscriptions {
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
    pub(crate) fn confirm(&self, in_force: InForce) {
        self.in_force.send_replace(in_force);
    }

    fn topics(&self) -> Vec<Arc<Topic>> {
        let wanted = self.wanted.lock();
        wanted.resources.values().filter(|topic| topic.is_wanted()).cloned().collect()
    }

    fn count(&self, uri: &str) -> Result<Arc<Topic>, CallError> {
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
        let topic = Arc::new(Topic { uri: uri.into(), count: 1.into(), told: false.into() });
        wanted.resources.insert(uri.into(), Arc::clone(&topic));
        self.changed();
        Ok(topic)
    }

    /// Takes one count back. The topic, when it was the last.
    fn discount(&self, uri: &str) -> Option<Arc<Topic>> {
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

    fn forget(&self, topic: &Arc<Topic>) {
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

    fn changed(&self) {
        self.version.send_modify(|version| *version += 1);
    }
}

fn within_limits(what: &str, count: usize, name: &str) -> Result<(), CallError> {
    let reason = match () {
        () if count >= MOST => format!("more than {MOST} {what} of this backend are subscribed to"),
        () if name.len() > LONGEST => format!("the name is longer than {LONGEST} bytes"),
        () => return Ok(()),
    };
    Err(CallError::InvalidRequest { reason })
}

/// Counts a subscriber of `uri`, and asks the backend unless it was asked before. An error of any kind counts nobody.
pub(crate) async fn subscribe(shared: &Arc<Shared>, uri: &str) -> Result<Outcome, CallError> {
    let topic = shared.subscriptions.count(uri)?;
    let mut reference = Reference { shared, topic, kept: false };
    let after = DEFAULT_DEADLINE;
    let asked = timeout(after, ask(shared, &reference.topic)).await;
    let outcome = asked.unwrap_or(Err(CallError::Timeout { after }))?;
    reference.kept = matches!(outcome, Outcome::Result(_));
    Ok(outcome)
}

async fn ask(shared: &Arc<Shared>, topic: &Topic) -> Result<Outcome, CallError> {
    let connection = shared.connected().await?;
    if !connection.server.takes_subscriptions() {
        let error = RpcError::new(codes::METHOD_NOT_FOUND, "the server does not offer subscriptions");
        return Ok(Outcome::Error(RawValue::from_string(error.to_json()).unwrap_or_default().into()));
    }
    match connection.server.era() {
        Era::Legacy => tell(shared, topic).await,
        Era::Modern => {
            let outcome = confirmed(&shared.subscriptions).await?;
            *topic.told.lock().await = matches!(outcome, Outcome::Result(_));
            Ok(outcome)
        }
    }
}

async fn tell(shared: &Arc<Shared>, topic: &Topic) -> Result<Outcome, CallError> {
    let mut told = topic.told.lock().await;
    if *told {
        return Ok(Outcome::result(empty_object()));
    }
    // If the caller goes away before the answer, the server may have been told.
    *told = true;
    let outcome = send(shared, methods::SUBSCRIBE, &topic.uri).await;
    *told = matches!(outcome, Ok(Outcome::Result(_)));
    outcome
}

/// Waits until the listener has what is wanted now in force.
async fn confirmed(subscriptions: &Subscriptions) -> Result<Outcome, CallError> {
    let version = *subscriptions.version.borrow();
    let mut in_force = subscriptions.in_force.subscribe();
    let reached = timeout(CONFIRM, in_force.wait_for(|in_force| in_force.version >= version)).await;
    match reached {
        Ok(Ok(in_force)) => Ok(match &in_force.refusal {
            Some(error) => Outcome::error(error),
            None => Outcome::result(empty_object()),
        }),
        Ok(Err(_)) => Err(LinkError::Stopped.into()),
        Err(_) => Err(CallError::Timeout { after: CONFIRM }),
    }
}

async fn send(shared: &Arc<Shared>, method: &str, uri: &str) -> Result<Outcome, CallError> {
    let params = RawValue::from_string(format!(r#"{{"uri":{}}}"#, text::quoted(uri)))
        .map_err(|error| CallError::InvalidRequest { reason: error.to_string() })?;
    let request = Request { idempotent: true, ..Request::new(method, &params) };
    let ours = Arc::new(Listener { ours: true, ..Listener::default() });
    call::run_for(shared, request, ours).await.map(|done| done.outcome)
}

/// Takes one subscriber back. The backend is told when it was the last, in the background.
pub(crate) fn unsubscribe(shared: &Arc<Shared>, uri: &str) {
    let Some(topic) = shared.subscriptions.discount(uri) else { return };
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let shared = Arc::clone(shared);
    runtime.spawn(async move {
        let mut told = topic.told.lock().await;
        if *told && !topic.is_wanted() {
            *told = false;
            if let Err(error) = send(&shared, methods::UNSUBSCRIBE, &topic.uri).await {
                tracing::debug!(%error, "the backend could not be told to end a subscription");
            }
        }
        shared.subscriptions.forget(&topic);
    });
}

/// Subscribes again on a new legacy connection.
pub(crate) async fn resume(shared: &Arc<Shared>) {
    for topic in shared.subscriptions.topics() {
        // Who has not been told yet has a subscriber that is about to.
        if !std::mem::take(&mut *topic.told.lock().await) {
            continue;
        }
        match tell(shared, &topic).await {
            Ok(Outcome::Result(_)) => {}
            Ok(Outcome::Error(error)) => {
                tracing::warn!(error = error.get(), "the backend refused to renew a subscription");
            }
            Err(error) => return tracing::info!(%error, "subscriptions could not be renewed"),
        }
    }
    announce(shared);
}

/// Tells all subscribers to look again: what was updated while nobody listened was announced to nobody.
pub(crate) fn announce(shared: &Shared) {
    for topic in shared.subscriptions.topics() {
        // Who is being told just now has missed nothing.
        if topic.told.try_lock().is_ok_and(|told| *told)
            && let Some(message) = updated(&topic.uri)
        {
            shared.settings.downstream.deliver(&shared.spec.name, None, Event::Notification(message));
        }
    }
}

/// A `notifications/resources/updated` of our own.
fn updated(uri: &str) -> Option<Box<RawValue>> {
    let params = format!(r#"{{"uri":{}}}"#, text::quoted(uri));
    let message = rpc::notification(methods::RESOURCE_UPDATED, Some(params.into()));
    serde_json::from_slice(&message).ok()
}
