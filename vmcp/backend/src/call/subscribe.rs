//! Subscribes at the backend on behalf of clients, and renews the subscriptions on each new connection.

use std::sync::Arc;

use futures::{StreamExt as _, stream};

use serde_json::value::RawValue;
use tokio::time::timeout;
use vmcp_wire::era::Era;
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::rpc::RpcError;
use vmcp_wire::{codes, methods};

use crate::call;
use crate::inbound::call_listener::CallListener;
use crate::request::{
    CallError, DEFAULT_DEADLINE, Event, OWN_SESSION, Request, RpcOutcome, SessionId, Subscriber,
    Transmission, empty_object,
};
use crate::sharing::core::{BackendCore, MAX_CONCURRENT_SUBSCRIBES};
use crate::sharing::session_subscriptions;
use crate::sharing::subscription_registry::ResourceTopic;

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
            unsubscribe_all(self.shared, &self.topic.uri);
        }
    }
}

/// Subscribes a client: on its own connection, if it has one, else on the main one.
pub(crate) async fn subscribe(
    shared: &Arc<BackendCore>,
    uri: &str,
    subscriber: &Subscriber,
) -> Result<RpcOutcome, CallError> {
    if let Some(session) = subscriber.session
        && let Some(outcome) = subscribe_session(shared, uri, session, subscriber).await?
    {
        return Ok(outcome);
    }
    subscribe_all(shared, uri).await
}

/// Subscribes a client on the connection that its session owns; `None` if it owns none.
async fn subscribe_session(
    shared: &Arc<BackendCore>,
    uri: &str,
    session: SessionId,
    subscriber: &Subscriber,
) -> Result<Option<RpcOutcome>, CallError> {
    let connection = shared.connected().await?;
    let params = params(uri)?;
    let request = Request {
        idempotent: true,
        hasty: true,
        session: Some(session),
        principal: subscriber.principal,
        credentials: subscriber.credentials.clone(),
        client: subscriber.client.clone(),
        ..Request::new(methods::SUBSCRIBE, &params)
    };
    if !shared.sessions.owns(&connection, &request) {
        return Ok(None);
    }
    // The session's server decides: it may declare other capabilities than the main connection's, and some
    // serve subscriptions that they do not declare.
    let outcome = call::send(shared, &request, &CallListener::of(&request)).await?.outcome;
    // A server of the modern era only has shown that it is one.
    if !shared.sessions.owns(&connection, &request) {
        return Ok(None);
    }
    if matches!(outcome, RpcOutcome::Result(_)) {
        shared.sessions.subscribed(session, uri);
    }
    Ok(Some(outcome))
}

fn params(uri: &str) -> Result<OwnedParams, CallError> {
    OwnedParams::from_text(session_subscriptions::named(uri))
        .map_err(|error| CallError::InvalidRequest { reason: error.to_string() })
}

fn not_offered() -> RpcOutcome {
    let error = RpcError::new(codes::METHOD_NOT_FOUND, "the server does not offer subscriptions");
    RpcOutcome::Error(RawValue::from_string(error.to_json()).unwrap_or_default().into())
}

/// Counts a subscriber of `uri`, and asks the backend unless it was asked before. Any answer but a result
/// counts no subscriber.
async fn subscribe_all(shared: &Arc<BackendCore>, uri: &str) -> Result<RpcOutcome, CallError> {
    let topic = shared.subscriptions.count(uri)?;
    let mut reference = TopicReference { shared, topic, kept: false };
    let after = DEFAULT_DEADLINE;
    let asked = timeout(after, ask(shared, &reference.topic)).await;
    let outcome = asked.unwrap_or(Err(CallError::timeout(after, Transmission::Unknown)))?;
    reference.kept = matches!(outcome, RpcOutcome::Result(_));
    Ok(outcome)
}

async fn ask(shared: &Arc<BackendCore>, topic: &ResourceTopic) -> Result<RpcOutcome, CallError> {
    let connection = shared.connected().await?;
    match connection.server.era() {
        // Some servers serve subscriptions that they do not declare, such as those of the Python SDK 1.
        Era::Legacy => tell(shared, topic).await,
        Era::Modern if !connection.server.takes_subscriptions() => tell_as_legacy(shared, topic).await,
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

/// Subscribes on a session of vmcp's own in the legacy era: some servers of both eras offer subscriptions
/// there alone.
async fn tell_as_legacy(shared: &Arc<BackendCore>, topic: &ResourceTopic) -> Result<RpcOutcome, CallError> {
    let connection = shared.connected().await?;
    let params = params(&topic.uri)?;
    let request = Request {
        idempotent: true,
        hasty: true,
        session: Some(OWN_SESSION),
        ..Request::new(methods::SUBSCRIBE, &params)
    };
    let mut told = topic.told.lock().await;
    if *told {
        return Ok(RpcOutcome::result(empty_object()));
    }
    if !shared.sessions.owns(&connection, &request) {
        return Ok(not_offered());
    }
    let ours = Arc::new(CallListener { ours: true, ..CallListener::default() });
    let outcome = call::send(shared, &request, &ours).await?.outcome;
    // A server of the modern era only has shown that it is one.
    if !shared.sessions.owns(&connection, &request) {
        return Ok(not_offered());
    }
    *told = matches!(outcome, RpcOutcome::Result(_));
    if *told {
        // The session is kept while it has subscriptions.
        if !shared.sessions.has_subscriptions(OWN_SESSION) {
            shared.sessions.listen(OWN_SESSION, true);
        }
        shared.sessions.subscribed(OWN_SESSION, &topic.uri);
    }
    Ok(outcome)
}

/// Tells the backend that the last subscriber has gone, where it was told of the first.
async fn tell_end(shared: &Arc<BackendCore>, uri: &str) -> Result<(), CallError> {
    if !shared.sessions.unsubscribe(OWN_SESSION, uri) {
        return send(shared, methods::UNSUBSCRIBE, uri).await.map(drop);
    }
    if !shared.sessions.has_subscriptions(OWN_SESSION) {
        shared.sessions.listen(OWN_SESSION, false);
    }
    Ok(())
}

async fn send(shared: &Arc<BackendCore>, method: &str, uri: &str) -> Result<RpcOutcome, CallError> {
    let params = params(uri)?;
    // The semaphore is never closed.
    let _permit = shared.subscribing.acquire().await;
    // A server that is slow to subscribe may still call its tools.
    let request = Request { idempotent: true, hasty: true, ..Request::new(method, &params) };
    let ours = Arc::new(CallListener { ours: true, ..CallListener::default() });
    call::send(shared, &request, &ours).await.map(|done| done.outcome)
}

/// Takes one subscriber back: on the connection of its session, if it subscribed there.
pub(crate) fn unsubscribe(shared: &Arc<BackendCore>, uri: &str, session: Option<SessionId>) {
    if !session.is_some_and(|session| shared.sessions.unsubscribe(session, uri)) {
        unsubscribe_all(shared, uri);
    }
}

/// Takes one subscriber back. The last one's topic is unsubscribed in the background.
fn unsubscribe_all(shared: &Arc<BackendCore>, uri: &str) {
    let Some(topic) = shared.subscriptions.discount(uri) else { return };
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let shared = Arc::clone(shared);
    runtime.spawn(async move {
        let mut told = topic.told.lock().await;
        if *told && !topic.is_wanted() {
            *told = false;
            if let Err(error) = tell_end(&shared, &topic.uri).await {
                tracing::debug!(%error, "the backend could not be told to end a subscription");
            }
        }
        shared.subscriptions.forget(&topic);
    });
}

/// Subscribes again on a new legacy connection, and tells the subscribers to look again.
pub(crate) async fn resume(shared: &Arc<BackendCore>) {
    let topics = stream::iter(shared.subscriptions.topics());
    topics.for_each_concurrent(MAX_CONCURRENT_SUBSCRIBES, async |topic| renew(shared, &topic).await).await;
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
            && let Some(message) = session_subscriptions::updated(&topic.uri)
        {
            shared.facts.settings().downstream.deliver(
                &shared.facts.spec.name,
                None,
                Event::Notification(message),
            );
        }
    }
}
