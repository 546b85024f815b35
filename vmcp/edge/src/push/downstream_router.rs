//! [`DownstreamRouter`]: delivers what backends send outside of requests to the mailboxes of this process.
//!
//! A message of an upstream session goes to the client session that owns it. An update of a resource goes to
//! all subscribers of its URI, and of each URI that encloses it. Questions go to the session's stream; their
//! answers come back through [`PendingQuestions`].

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Poll;

use bytes::Bytes;
use tokio::sync::Notify;
use vmcp_backend::{Downstream, Event, Question, SessionId};
use vmcp_json::object::Object;
use vmcp_wire::envelope::{Message, Notification};
use vmcp_wire::level::Level;
use vmcp_wire::lists::tasks::{self, TASK_ID};
use vmcp_wire::{methods, rpc};

use super::mailbox::{Mailbox, Posted};
use super::server_push::ServerPush;
use super::session_registry::{Backends, RegisteredSession, SessionRegistry};
use super::topics::{Subscriber, Topic, TopicKind, TopicRegistry};
use crate::session::pending_questions::PendingQuestions;
use crate::session::sessions::SessionLife;
use vmcp_engine::access::identity::PrincipalKey;
use vmcp_engine::access::policy::Item;
use vmcp_engine::engine::Generation;
use vmcp_engine::telemetry::metrics::Metrics;
use vmcp_engine::telemetry::traces::TraceContext;
use vmcp_route::question_span::{self, AskingServer};
use vmcp_route::{CallContext, Caller, question_source, subscriptions, task_names};

/// Separators of a URI at which it is cut, counted from its end. An update may name a part of the subscribed
/// resource; the bound keeps a URI of nothing but slashes cheap.
const MAX_URI_CUTS: usize = 32;

/// Routes messages of backends to sessions and subscriptions. Created before the engine, whose backends
/// deliver to it, and before [`Edge`](crate::Edge).
#[derive(Debug)]
pub struct DownstreamRouter {
    metrics: Arc<Metrics>,
    pub(crate) questions: Arc<PendingQuestions>,
    pub(crate) sessions: SessionRegistry,
    pub(crate) topics: Arc<TopicRegistry>,
    /// Notified when a client has subscribed to an own resource.
    pub(crate) own_subscribed: Notify,
    /// Reaches the engine, whose backends begin to deliver before it is set. Router and [`ServerPush`] name
    /// each other, because the engine's backends hold the router: a strong reference would keep all alive.
    push: OnceLock<Weak<ServerPush>>,
}

impl DownstreamRouter {
    /// Creates a router without sessions and subscriptions.
    pub fn new(metrics: &Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            metrics: Arc::clone(metrics),
            questions: Arc::new(PendingQuestions::new(metrics)),
            sessions: SessionRegistry::new(metrics),
            topics: TopicRegistry::new(metrics),
            own_subscribed: Notify::new(),
            push: OnceLock::new(),
        })
    }

    /// Uses the engine of `push`.
    pub(crate) fn serve(&self, push: &Arc<ServerPush>) {
        // Only the first engine counts.
        let _ = self.push.set(Arc::downgrade(push));
    }

    fn push(&self) -> Option<Arc<ServerPush>> {
        self.push.get()?.upgrade()
    }

    /// Returns the id under which a session knows a task of a backend.
    fn task_of_session(&self, registered: &RegisteredSession, backend: &str, id: &str) -> Option<Arc<str>> {
        let tasks = Arc::clone(&self.push()?.engine.snapshot().tasks);
        tasks.shown_to_session(registered.session, registered.principal, backend, id)
    }

    /// True if the policies in force let a subscriber read the resource that an update names: a subscription
    /// to a resource hears of the resources within it.
    fn may_hear(&self, subscriber: &Subscriber, backend: &str, uri: &str) -> bool {
        let Some(push) = self.push() else { return false };
        let snapshot = push.engine.snapshot();
        if !snapshot.policy.restricts(&subscriber.principal) {
            return true;
        }
        let caller = Caller { principal: subscriber.principal.clone(), ..Caller::default() };
        let view = snapshot.view(&caller.principal);
        let context = CallContext { engine: &push.engine, snapshot: &snapshot, view: &view, caller: &caller };
        !view.hides(uri) && subscriptions::is_allowed(context, backend, Item::Resource(uri))
    }

    /// Returns the log level that a session set in this process.
    pub(crate) fn level(&self, session: SessionId) -> Option<Level> {
        self.sessions.get(session)?.level()
    }

    /// Returns the registration of a session of a principal, made if missing. A principal at
    /// its share loses another session. `now` are the present list generations.
    pub(crate) fn register(
        &self,
        session: SessionId,
        principal: PrincipalKey,
        life: SessionLife,
        now: Generation,
    ) -> Arc<RegisteredSession> {
        // A session may have listed at any time of its life, here or in another process.
        let known = now.as_known_since(life.began);
        let (registered, evicted) = self.sessions.register(session, principal, life.expires, known);
        for evicted in evicted {
            tracing::warn!(
                "a client has too many sessions; one was evicted and loses its stream and subscriptions"
            );
            self.release(&evicted);
        }
        registered
    }

    /// Ends a session whose client asks for it: its id is refused from now on.
    pub(crate) fn end(&self, session: SessionId, principal: PrincipalKey, expires: u64) {
        for released in self.sessions.end(session, principal, expires) {
            self.release(&released);
        }
    }

    /// Frees all that an ended session holds in this process: open questions, streams, subscriptions.
    pub(crate) fn end_session(&self, session: SessionId) {
        self.questions.close_session(session);
        if let Some(registered) = self.sessions.remove(session) {
            self.release(&registered);
        }
    }

    /// Removes the registration of a session if nothing uses it any more. Call after a stream or a
    /// subscription ended.
    pub(crate) fn forget_if_unused(&self, registered: Arc<RegisteredSession>) {
        self.sessions.remove_if_unused(registered, |number| !self.topics.topics_of(number).is_empty());
    }

    /// Closes the streams of a session that was removed, ends its subscriptions and tells the backends.
    fn release(&self, registered: &RegisteredSession) {
        registered.mailbox.close();
        self.topics.remove_all(registered.mailbox.number);
        registered.announce_listening(&Backends::default());
    }

    /// Sends a notification to the session it belongs to, or to the subscribers of its resource or task.
    fn route_notification(&self, backend: &str, session: Option<SessionId>, notification: &Notification<'_>) {
        let param = |key| Object::parse(notification.params?).ok()?.get_str(key);
        match (notification.method.as_ref(), session) {
            // A session with a connection of its own has subscribed there.
            (methods::RESOURCE_UPDATED, Some(session)) => {
                let (Some(registered), Some(uri)) = (self.sessions.get(session), param("uri")) else {
                    return;
                };
                let subscriber = self.topics.subscriber_at(registered.mailbox.number, backend);
                if subscriber.is_some_and(|subscriber| self.may_hear(&subscriber, backend, &uri)) {
                    self.publish([Arc::clone(&registered.mailbox)], Some(&uri), notification);
                }
            }
            (methods::RESOURCE_UPDATED, None) => {
                if let Some(uri) = param("uri") {
                    self.route_update(backend, &uri, notification);
                }
            }
            (methods::TASK_CHANGED, _) => {
                if let Some(id) = param(TASK_ID) {
                    let topic = Topic { kind: TopicKind::Task, backend: backend.into(), name: (&*id).into() };
                    for subscriber in self.topics.subscribers(&topic) {
                        let Some(shown) = subscriber.shown else { continue };
                        self.publish_task(subscriber.mailbox, &id, &shown, notification);
                    }
                }
            }
            (methods::TASK_STATUS, Some(session)) => {
                let (Some(id), Some(registered)) = (param(TASK_ID), self.sessions.get(session)) else {
                    return;
                };
                if let Some(shown) = self.task_of_session(&registered, backend, &id) {
                    self.publish_task(Arc::clone(&registered.mailbox), &id, &shown, notification);
                }
            }
            (methods::LOG_MESSAGE, Some(session)) => {
                let Some(registered) = self.sessions.get(session) else { return };
                let level = param("level").and_then(|level| Level::parse(&level));
                if level.zip(registered.level()).is_none_or(|(level, least)| level >= least) {
                    self.publish([Arc::clone(&registered.mailbox)], None, notification);
                }
            }
            (_, Some(session)) => {
                let registered = self.sessions.get(session);
                self.publish(
                    registered.map(|registered| Arc::clone(&registered.mailbox)),
                    None,
                    notification,
                );
            }
            (_, None) => {}
        }
    }

    /// True if webhooks read results of tools.
    fn results_are_read(&self) -> bool {
        self.push().is_some_and(|push| !push.engine.snapshot().webhooks.post.is_empty())
    }

    /// Sends a change of a task to a client, under the id that the client knows. Where webhooks read results,
    /// the outcome of the task is left out: a client that asks for it gets it read, or a refusal.
    fn publish_task(&self, to: Arc<Mailbox>, id: &str, shown: &str, notification: &Notification<'_>) {
        let Some(params) = notification.params else { return };
        let renamed = tasks::renamed(params, |own| (own == id).then(|| shown.to_owned()));
        let mut params = renamed.unwrap_or_else(|| params.to_owned());
        if self.results_are_read() {
            let Some(state) = tasks::without_outcome(&params) else { return };
            params = state;
        }
        let notification = Notification { method: notification.method.clone(), params: Some(&params) };
        self.publish([to], None, &notification);
    }

    /// Sends an update to the subscribers of a resource and of everything that encloses it, to each
    /// subscriber once.
    fn route_update(&self, backend: &str, uri: &str, notification: &Notification<'_>) {
        let (mut reached, backend): (_, Arc<str>) = (HashSet::new(), backend.into());
        for name in enclosing_uris(uri) {
            let topic = Topic { kind: TopicKind::Resource, backend: Arc::clone(&backend), name: name.into() };
            let subscribers = self.topics.subscribers(&topic).into_iter();
            let subscribers = subscribers.filter(|one| reached.insert(one.mailbox.number));
            let subscribers = subscribers.filter(|one| self.may_hear(one, &backend, uri));
            let to: Vec<_> = subscribers.map(|subscriber| subscriber.mailbox).collect();
            self.publish(to, Some(uri), notification);
        }
    }

    /// Tells one client that a resource may have changed.
    pub(crate) fn announce_update(&self, mailbox: &Arc<Mailbox>, uri: &str) {
        let params = serde_json::json!({ "uri": uri }).to_string();
        let message = rpc::notification(methods::RESOURCE_UPDATED, Some(params.into()));
        if let Ok(Message::Notification(notification)) = Message::parse(&message) {
            self.publish([Arc::clone(mailbox)], Some(uri), &notification);
        }
    }

    /// Encodes a notification and posts it to mailboxes; `replaces` is the key of [`Mailbox::post`].
    fn publish(
        &self,
        to: impl IntoIterator<Item = Arc<Mailbox>>,
        replaces: Option<&str>,
        notification: &Notification<'_>,
    ) {
        // Legacy sessions share one encoding; a modern subscription has its id in each message.
        let mut of_sessions = None;
        for mailbox in to {
            let message = if mailbox.subscription().is_some() {
                mailbox.message(notification)
            } else {
                of_sessions.get_or_insert_with(|| mailbox.message(notification)).clone()
            };
            if let Some(message) = message {
                self.post(&mailbox, replaces, message);
            }
        }
    }

    /// Posts a message, and ends the subscriptions of a modern stream that was cut off.
    fn post(&self, mailbox: &Mailbox, replaces: Option<&str>, message: Bytes) -> Posted {
        let posted = mailbox.post(replaces, message);
        if posted == Posted::CutOff {
            self.metrics.listeners_cut_off.inc();
            tracing::info!(
                "a client does not read its push stream; the stream was ended, the client may open another"
            );
            if mailbox.subscription().is_some() {
                self.topics.remove_all(mailbox.number);
            }
        }
        posted
    }

    /// Sends a question on the push stream of a session. Without a stream the question is dropped, which
    /// tells the backend.
    fn ask(&self, session: SessionId, question: Question) {
        let Some(registered) = self.sessions.get(session) else { return };
        let Some(mut asked) = self.questions.ask(registered.principal, session) else { return };
        let message = asked.message(&question, None);
        if self.post(&registered.mailbox, None, message.into()) != Posted::Queued {
            return;
        }
        let mut answer = question.answer;
        tokio::spawn(async move {
            // The first of the two ends the wait: the client answers, or the backend no longer waits.
            let answered = poll_fn(|cx| match asked.poll(cx) {
                Poll::Ready(outcome) => Poll::Ready(outcome),
                Poll::Pending => answer.poll_closed(cx).map(|()| None),
            });
            match answered.await {
                // The backend may have gone in the meantime.
                Some(outcome) => drop(answer.send(outcome)),
                None => _ = registered.mailbox.post(None, asked.cancellation().into()),
            }
        });
    }
}

impl Downstream for DownstreamRouter {
    fn deliver(&self, backend: &str, session: Option<SessionId>, event: Event) {
        let snapshot = self.push().map(|push| push.engine.snapshot());
        let is_silent = snapshot.as_ref().is_some_and(|now| now.config.silent_backends.contains(backend));
        if is_silent && question_source::asks(&event) {
            // Dropped, which tells the backend.
            return;
        }
        let bridges = snapshot.as_ref().is_some_and(|now| now.bridge);
        let event = if bridges { Some(event) } else { question_source::named(event, backend) };
        // A question that cannot be read is dropped, too.
        let Some(event) = event else { return };
        let registered = session.and_then(|session| self.sessions.get(session));
        let event = task_names::named(event, |id| self.task_of_session(registered.as_deref()?, backend, id));
        match (event, session) {
            (Event::Notification(message), _) => {
                if let Ok(Message::Notification(notification)) = Message::parse(message.get().as_bytes()) {
                    self.route_notification(backend, session, &notification);
                }
            }
            (Event::Question(question), Some(session)) => {
                let asking = snapshot.as_ref().and_then(|now| now.backends.get(backend));
                let question = match asking.map(AskingServer::from) {
                    Some(server) => question_span::followed(question, &TraceContext::default(), &server),
                    None => question,
                };
                self.ask(session, question);
            }
            (Event::Question(_), None) => {}
        }
    }
}

/// Yields a URI and its prefixes up to each separator, with and without the separator; at most
/// [`MAX_URI_CUTS`] separators.
fn enclosing_uris(uri: &str) -> impl Iterator<Item = &str> {
    let cuts = uri.rmatch_indices(['/', '?', '#']).take(MAX_URI_CUTS);
    let shorter = cuts.flat_map(move |(at, _)| [uri.get(..=at), uri.get(..at)]).flatten();
    std::iter::once(uri).chain(shorter.filter(move |part| *part != uri))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_belongs_to_its_whole() {
        let found: Vec<_> = enclosing_uris("file:///a/b#c").collect();
        assert_eq!(
            found,
            [
                "file:///a/b#c",
                "file:///a/b#",
                "file:///a/b",
                "file:///a/",
                "file:///a",
                "file:///",
                "file://",
                "file://",
                "file:/",
                "file:/",
                "file:"
            ]
        );
        assert_eq!(enclosing_uris(&"/".repeat(10_000)).count(), 2 * MAX_URI_CUTS);
    }
}
