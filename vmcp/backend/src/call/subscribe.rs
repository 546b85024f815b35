//! Subscribes at the backend on behalf of clients, and renews the subscriptions on each new connection.

use std::sync::Arc;

use futures::{StreamExt as _, stream};

use serde_json::value::RawValue;
use tokio::time::timeout;
use vmcp_json::text;
use vmcp_wire::era::Era;
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::rpc::{self, RpcError};
use vmcp_wire::{codes, methods};

use crate::call;
use crate::inbound::call_listener::CallListener;
use crate::request::{CallError, DEFAULT_DEADLINE, Event, Request, RpcOutcome, Transmission, empty_object};
use crate::sharing::core::BackendCore;
use crate::sharing::subscription_registry::ResourceTopic;

/// Subscriptions renewed side by side on a new connection.
const MAX_CONCURRENT_RENEWALS: usize = 16;

/// One count of a topic, given back if dropped before it is kept: on an error, a timeout, or when the caller
/// goes away.
struct TopicReference<'a> {
    shared: &'a Arc<BackendCore>,
    topic: Arc<ResourceTopic>,
    kept: bool,
}

impl Drop for TopicReference<'_> {
    fn drop(&mut self) {
        if !self.kept {
            unsubscribe(self.shared, &self.topic.uri);
        }
    }
}

/// Counts a subscriber of `uri`, and asks the backend unless it was asked before. Any answer but a result
/// counts no subscriber.
pub(crate) async fn subscribe(shared: &Arc<BackendCore>, uri: &str) -> Result<RpcOutcome, CallError> {
    let topic = shared.subscriptions.count(uri)?;
    let mut reference = TopicReference { shared, topic, kept: false };
    let after = DEFAULT_DEADLINE;
    let asked = timeout(after, ask(shared, &reference.topic)).await;
    let outcome = asked.unwrap_or(Err(CallError::Timeout { after, transmission: Transmission::Unknown }))?;
    reference.kept = matches!(outcome, RpcOutcome::Result(_));
    Ok(outcome)
}

async fn ask(shared: &Arc<BackendCore>, topic: &ResourceTopic) -> Result<RpcOutcome, CallError> {
    let connection = shared.connected().await?;
    if !connection.server.takes_subscriptions() {
        let error = RpcError::new(codes::METHOD_NOT_FOUND, "the server does not offer subscriptions");
        return Ok(RpcOutcome::Error(RawValue::from_string(error.to_json()).unwrap_or_default().into()));
    }
    match connection.server.era() {
        Era::Legacy => tell(shared, topic).await,
        Era::Modern => {
            let outcome = shared.subscriptions.confirmed().await?;
            *topic.told.lock().await = matches!(outcome, RpcOutcome::Result(_));
            Ok(outcome)
        }
    }
}

async fn tell(shared: &Arc<BackendCore>, topic: &ResourceTopic) -> Result<RpcOutcome, CallError> {
    let mut told = topic.told.lock().await;
    if *told {
        return Ok(RpcOutcome::result(empty_object()));
    }
    // Set before the await: if the caller goes away before the answer, the server may have been told, and
    // must then be told to unsubscribe.
    *told = true;
    let outcome = send(shared, methods::SUBSCRIBE, &topic.uri).await;
    *told = matches!(outcome, Ok(RpcOutcome::Result(_)));
    outcome
}

async fn send(shared: &Arc<BackendCore>, method: &str, uri: &str) -> Result<RpcOutcome, CallError> {
    let params = OwnedParams::from_text(format!(r#"{{"uri":{}}}"#, text::quoted(uri)))
        .map_err(|error| CallError::InvalidRequest { reason: error.to_string() })?;
    // A server that is slow to subscribe may still call its tools.
    let request = Request { idempotent: true, hasty: true, ..Request::new(method, &params) };
    let ours = Arc::new(CallListener { ours: true, ..CallListener::default() });
    call::send(shared, &request, &ours).await.map(|done| done.outcome)
}

/// Takes one subscriber back. The last one's topic is unsubscribed in the background.
pub(crate) fn unsubscribe(shared: &Arc<BackendCore>, uri: &str) {
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

/// Subscribes again on a new legacy connection, and tells the subscribers to look again.
pub(crate) async fn resume(shared: &Arc<BackendCore>) {
    let topics = stream::iter(shared.subscriptions.topics());
    topics.for_each_concurrent(MAX_CONCURRENT_RENEWALS, async |topic| renew(shared, &topic).await).await;
    announce(shared);
}

async fn renew(shared: &Arc<BackendCore>, topic: &ResourceTopic) {
    // A topic that was never told has a subscriber that is about to tell it.
    if !std::mem::take(&mut *topic.told.lock().await) || !topic.is_wanted() {
        return;
    }
    match tell(shared, topic).await {
        Ok(RpcOutcome::Result(_) | RpcOutcome::Arriving(_)) => {}
        Ok(RpcOutcome::Error(error)) => {
            tracing::warn!(error = error.get(), "the backend refused to renew a subscription");
        }
        Err(error) => tracing::info!(%error, "a subscription could not be renewed"),
    }
}

/// Tells all subscribers to look again: updates during a gap were announced to no stream.
pub(crate) fn announce(shared: &BackendCore) {
    for topic in shared.subscriptions.topics() {
        // A topic whose lock is held is being subscribed just now, and has missed nothing.
        if topic.told.try_lock().is_ok_and(|told| *told)
            && let Some(message) = updated(&topic.uri)
        {
            shared.facts.settings.downstream.deliver(
                &shared.facts.spec.name,
                None,
                Event::Notification(message),
            );
        }
    }
}

/// The `notifications/resources/updated` that vmcp sends by itself.
fn updated(uri: &str) -> Option<Box<RawValue>> {
    let params = format!(r#"{{"uri":{}}}"#, text::quoted(uri));
    let message = rpc::notification(methods::RESOURCE_UPDATED, Some(params.into()));
    serde_json::from_slice(&message).ok()
}
