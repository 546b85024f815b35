//! Routes messages that a backend sends besides answers: notifications, and requests to its client.

pub(crate) mod call_listener;
mod late_logs;
mod late_owners;
pub(crate) mod log_level;
pub(crate) mod owner;
mod questions;

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use vmcp_config::KnownSecrets;
use vmcp_json::object::Object;
use vmcp_wire::envelope::{Message, Notification, Request};
use vmcp_wire::handshake::client_capabilities::AnswerableQuestions;
use vmcp_wire::meta::{PROGRESS_TOKEN, SUBSCRIPTION_ID};
use vmcp_wire::params::Params;
use vmcp_wire::{methods, rpc};

use crate::inbound::call_listener::CallListener;
use crate::inbound::late_logs::LateLogs;
use crate::inbound::late_owners::LateOwners;
use crate::inbound::log_level::ChosenLevel;
use crate::inbound::owner::Owner;
use crate::inbound::questions::{OpenQuestions, PendingAnswer, QuestionRefusal};
use crate::policy::facts::Facts;
use crate::policy::session_changes::SessionChanges;
use crate::policy::stream_floods::StreamFloods;
use crate::request::{
    Downstream, Event, EventSender, OWN_SESSION, Request as CallRequest, RpcOutcome, SessionId,
};
use crate::server_log::operator_log::OperatorLog;

/// The id under which a call is routed before it has one; real ids start at 1.
const OPENING_ID: u64 = 0;

/// Router of one connection, shared by everything that reads from it.
#[derive(Debug)]
pub(crate) struct Inbound {
    backend: Arc<str>,
    downstream: Arc<dyn Downstream>,
    /// Time for a client to answer a question.
    answer_timeout: Duration,
    /// Secrets to be masked in the words of the server.
    pub(crate) secrets: Arc<ArcSwap<KnownSecrets>>,
    /// Wakes the refresher when the backend says that its definitions changed.
    pub(crate) changed: Arc<Notify>,
    /// Sessions on whose own connections it said so.
    session_changes: Arc<SessionChanges>,
    /// The operator's log of messages that belong to no client.
    log: Arc<OperatorLog>,
    /// Streams of the backend that were ended because they flooded.
    pub(crate) floods: Arc<StreamFloods>,
    /// The clients whose calls use the connection; everyone as long as it is not set.
    owner: OnceLock<Owner>,
    /// The log level that was set on this connection.
    pub(crate) level: ChosenLevel,
    last_id: AtomicU64,
    /// Calls under way, by request id. The id is also the progress token upstream: tokens of different
    /// clients may be equal.
    routes: Mutex<HashMap<u64, CallRoute>>,
    questions: Arc<OpenQuestions>,
    /// Sessions of what ends after the call in which it began.
    late: LateOwners,
    late_logs: LateLogs,
    /// The server asked something while the connection was opened.
    asked_at_opening: AtomicBool,
    /// Set once a server of the backend has asked for roots outside of calls.
    asks_for_roots: Arc<AtomicBool>,
    /// A message that could belong to several clients was dropped or refused; the log says so once.
    has_dropped: AtomicBool,
}

#[derive(Debug)]
struct CallRoute {
    /// The caller's own progress token; without one, progress keeps the call alive and is not passed on.
    token: Option<Box<RawValue>>,
    listener: Arc<CallListener>,
}

/// A message on its way to the caller of the call that it belongs to.
#[derive(Debug)]
pub(crate) struct Delivery {
    to: EventSender,
    event: Event,
}

impl Delivery {
    /// Waits for room (backpressure): for a stream that belongs to one call, whose server may be slowed down.
    pub(crate) async fn send(self) {
        // A caller that stopped listening is no error.
        let _ = self.to.send(self.event).await;
    }

    /// Drops the message if there is no room: for a stream shared by many calls, where waiting would stop
    /// them all.
    pub(crate) fn try_send(self) {
        if self.to.try_send(self.event).is_err() {
            tracing::debug!("a caller reads its messages too slowly or not at all, one was dropped");
        }
    }
}

/// Reaction to a request of the backend's.
#[derive(Debug)]
pub(crate) enum Reaction {
    /// Sends this back.
    Answer(Bytes),
    /// Hands the question over, unless that has been done, and sends back the answer to it.
    Ask(Option<Delivery>, PendingAnswer),
    Ignore,
}

impl Inbound {
    pub(crate) fn new(facts: &Facts, owner: Owner) -> Self {
        Self {
            backend: Arc::clone(&facts.spec.name),
            downstream: Arc::clone(&facts.settings().downstream),
            answer_timeout: facts.settings().max_call,
            secrets: Arc::clone(&facts.secrets),
            changed: Arc::clone(&facts.changed),
            session_changes: Arc::clone(&facts.session_changes),
            log: Arc::clone(&facts.log),
            floods: Arc::clone(&facts.floods),
            owner: owner.is_one().then_some(owner).map_or_else(OnceLock::new, OnceLock::from),
            level: ChosenLevel::default(),
            last_id: AtomicU64::default(),
            routes: Mutex::default(),
            questions: Arc::default(),
            late: LateOwners::default(),
            late_logs: LateLogs::default(),
            asked_at_opening: AtomicBool::new(false),
            asks_for_roots: Arc::clone(&facts.asks_for_roots),
            has_dropped: AtomicBool::new(false),
        }
    }

    /// Returns the clients whose calls use the connection.
    pub(crate) fn owner(&self) -> Owner {
        self.owner.get().copied().unwrap_or(Owner::Everyone)
    }

    /// Gives a connection that has no owner yet to `owner`.
    pub(crate) fn belongs_to(&self, owner: Owner) {
        // Handed over once, before its first message.
        let _ = self.owner.set(owner);
    }

    /// Routes messages that come while the connection is opened for a call to the call's `listener`, until
    /// the guard is dropped: a server may ask as soon as it is introduced.
    pub(crate) fn route_opening(self: &Arc<Self>, listener: Arc<CallListener>) -> RouteGuard {
        self.route(OPENING_ID, None, listener)
    }

    /// True if the server has asked a question while the connection was opened.
    pub(crate) fn has_asked_at_opening(&self) -> bool {
        self.asked_at_opening.load(Ordering::Relaxed)
    }

    /// True if a question that the server asked while the connection was opened is open.
    pub(crate) fn is_asked_at_opening(&self) -> bool {
        self.questions.has_of_call(OPENING_ID)
    }

    /// The next request id. Ids start at 1 and are never used again on the connection.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Routes messages that come before the answer to request `id` to `listener`, until the guard is dropped.
    pub(crate) fn route(
        self: &Arc<Self>,
        id: u64,
        token: Option<Box<RawValue>>,
        listener: Arc<CallListener>,
    ) -> RouteGuard {
        let late = self.late_logs_for(id, &listener);
        self.routes.lock().insert(id, CallRoute { token, listener });
        late.into_iter().for_each(Delivery::try_send);
        RouteGuard { inbound: Arc::clone(self), id }
    }

    /// Decides about a request of the backend's. `of` is the request on whose own stream it came.
    pub(crate) fn request(&self, request: &Request<'_>, of: Option<u64>) -> Reaction {
        let (id, method) = (request.id, request.method.as_ref());
        self.touch(of);
        if method == methods::PING {
            return Reaction::Answer(rpc::response(id, "{}").into());
        }
        let caller = self.caller(of);
        let is_of_call = of.is_some() || caller.as_ref().is_some_and(|(id, _)| *id != OPENING_ID);
        if method == methods::ROOTS_LIST && !is_of_call {
            self.asks_for_roots.store(true, Ordering::Relaxed);
        }
        let session = self.owner().session();
        let abilities = match (&caller, session) {
            (Some((_, listener)), _) => AnswerableQuestions::read(listener.client.capabilities.as_deref()),
            (None, Some(_)) => self.owner().abilities(),
            (None, None) => {
                let reason = "the client cannot be asked: the question belongs to no call of a single client";
                return Reaction::Answer(questions::refused(id, reason));
            }
        };
        if let Some(reason) = abilities.refusal(method, request.params) {
            return Reaction::Answer(questions::refused(id, reason));
        }
        let call = caller.as_ref().map(|(id, listener)| (*id, listener));
        match self.questions.open(request, call, self.answer_timeout) {
            Ok((question, waiting)) => {
                if call.is_some_and(|(id, _)| id == OPENING_ID) {
                    self.asked_at_opening.store(true, Ordering::Relaxed);
                }
                if let Some(asked) = call.and_then(|(_, listener)| listener.session)
                    && method == methods::ELICIT
                {
                    self.late.learn_question(asked, request.params);
                }
                let event = Event::Question(question);
                let to = caller.and_then(|(_, listener)| listener.events.clone());
                let Some(to) = to else {
                    self.downstream.deliver(&self.backend, session, event);
                    return Reaction::Ask(None, waiting);
                };
                Reaction::Ask(Some(Delivery { to, event }), waiting)
            }
            Err(QuestionRefusal::TooMany) => {
                let reason = "the client cannot be asked: too many of your requests wait for an answer";
                Reaction::Answer(questions::refused(id, reason))
            }
            Err(QuestionRefusal::Duplicate) => {
                tracing::debug!(id = id.get(), "ignored a request whose id is in use by another");
                Reaction::Ignore
            }
        }
    }

    /// Decides about a notification; returns it if a caller is to get it. `of` is the request on whose own
    /// stream it came.
    pub(crate) fn notification(
        &self,
        notification: &Notification<'_>,
        whole: &[u8],
        of: Option<u64>,
    ) -> Option<Delivery> {
        let params = notification.params;
        self.touch(of);
        match notification.method.as_ref() {
            methods::TOOLS_CHANGED | methods::RESOURCES_CHANGED | methods::PROMPTS_CHANGED => {
                self.changed.notify_one();
                if let Some(session) = of_client(self.owner().session()) {
                    self.session_changes.add(session);
                }
                None
            }
            methods::PROGRESS => self.progress(params?),
            methods::CANCELLED => {
                self.questions.take_back(Object::parse(params?).ok()?.get("requestId")?);
                None
            }
            methods::LOG_MESSAGE => self.log_message(params, whole, of),
            // The first message of a subscription. On a shared link its subscription id names the request.
            methods::ACKNOWLEDGED => {
                let of =
                    of.or_else(|| Params::parse(params).ok()?.meta.get(SUBSCRIPTION_ID)?.get().parse().ok());
                deliver(&self.caller(Some(of?))?.1, whole)
            }
            methods::RESOURCE_UPDATED | methods::TASK_CHANGED => {
                self.deliver_downstream(whole);
                None
            }
            methods::TASK_STATUS => {
                self.deliver(self.owner().session().or_else(|| self.late.of_task(params)), whole);
                None
            }
            other => match of.and_then(|of| self.caller(Some(of))) {
                Some((_, listener)) => deliver(&listener, whole),
                None if other == methods::ELICITATION_COMPLETE => {
                    self.deliver(self.owner().session().or_else(|| self.late.of_visit(params)), whole);
                    None
                }
                None => self.deliver_to_session(whole),
            },
        }
    }

    /// Restarts the deadline clock of the request on whose own stream a message came: any message shows that
    /// the backend works on it.
    fn touch(&self, of: Option<u64>) {
        if let Some(of) = of
            && let Some(route) = self.routes.lock().get(&of)
        {
            route.listener.clock.touch();
        }
    }

    fn progress(&self, params: &RawValue) -> Option<Delivery> {
        let params = Object::parse(params).ok()?;
        let id: u64 = params.get(PROGRESS_TOKEN)?.get().parse().ok()?;
        let routes = self.routes.lock();
        // Late progress of a call that has ended has no route.
        let route = routes.get(&id)?;
        route.listener.clock.touch();
        let to = route.listener.events.clone()?;
        let mut edit = params.edit();
        edit.set(PROGRESS_TOKEN, route.token.as_deref()?);
        let message = rpc::notification(methods::PROGRESS, Some(edit.finish()));
        Some(Delivery { to, event: Event::Notification(serde_json::from_slice(&message).ok()?) })
    }

    /// Hands a log message to the calls that it may belong to: the one on whose stream it came or, on a
    /// connection of one client, all calls of a modern client under way, which cannot be told apart, and the
    /// latest of a session.
    fn log_message(&self, params: Option<&RawValue>, whole: &[u8], of: Option<u64>) -> Option<Delivery> {
        let Some((_, listener)) = self.caller(of) else {
            if self.owner().session().is_some() {
                return self.deliver_downstream(whole);
            }
            self.log.write(params, &self.secrets.load());
            if of.is_none() {
                self.late_logs.keep(whole);
            }
            return None;
        };
        if of.is_none() && listener.session.is_none() {
            for other in self.others(&listener) {
                other.clock.touch();
                if let Some(copy) = wanted(&other, params, whole, self.level.is_set()) {
                    copy.try_send();
                }
            }
        }
        // On a stream of its own the call was found by it; on others this is the first to tell.
        listener.clock.touch();
        wanted(&listener, params, whole, self.level.is_set())
    }

    /// Returns the log messages that came after the last call of the caller, a client without a session.
    fn late_logs_for(&self, id: u64, listener: &CallListener) -> Vec<Delivery> {
        let is_client = id != OPENING_ID && !listener.ours && listener.session.is_none();
        if !is_client || !self.owner().is_one() {
            return Vec::new();
        }
        let late = self.late_logs.next_call(listener);
        let wanted = late.iter().filter_map(|whole| match Message::parse(whole) {
            Ok(Message::Notification(message)) => {
                wanted(listener, message.params, whole, self.level.is_set())
            }
            _ => None,
        });
        wanted.collect()
    }

    /// Finds the caller that a message is for: the one on whose stream it came, or, on a connection of one
    /// owner, the latest call under way, if all calls are of one client. `None` if that caller takes no
    /// messages.
    fn caller(&self, of: Option<u64>) -> Option<(u64, Arc<CallListener>)> {
        let routes = self.routes.lock();
        let latest = || {
            let calls = routes.iter().filter(|(_, route)| route.takes_messages());
            let (id, latest) = calls.max_by_key(|(id, _)| **id)?;
            // A call that takes no messages may be the cause of this one all the same.
            let mut others = routes.values().filter(|route| !route.listener.ours);
            if self.owner().session().is_some()
                || others.all(|other| other.listener.is_of_client(&latest.listener))
            {
                return Some(*id);
            }
            self.tell_dropped();
            None
        };
        let id = of.or_else(|| self.owner().is_one().then(latest)?)?;
        let route = routes.get(&id)?;
        route.listener.events.as_ref()?;
        Some((id, Arc::clone(&route.listener)))
    }

    /// Returns the listeners of the other calls under way. A call has two routes while the opening of its
    /// connection is one of them.
    fn others(&self, than: &Arc<CallListener>) -> Vec<Arc<CallListener>> {
        let routes = self.routes.lock();
        let others = routes.iter().filter(|(id, route)| **id != OPENING_ID && route.takes_messages());
        let listeners = others.map(|(_, route)| Arc::clone(&route.listener));
        listeners.filter(|listener| !Arc::ptr_eq(listener, than)).collect()
    }

    /// Says in the log, once for each connection, that a message had no certain owner.
    fn tell_dropped(&self) {
        if !self.has_dropped.swap(true, Ordering::Relaxed) {
            tracing::info!(
                "a message of the server could belong to calls of several clients, and went to none of them; \
                 `isolation: session` gives each client a connection of its own"
            );
        }
    }

    /// Delivers to the client whose upstream session this is. A message that came to several clients and
    /// belongs to none of their calls is dropped.
    fn deliver_to_session(&self, whole: &[u8]) -> Option<Delivery> {
        self.owner().session()?;
        self.deliver_downstream(whole)
    }

    fn deliver_downstream(&self, whole: &[u8]) -> Option<Delivery> {
        self.deliver(self.owner().session(), whole);
        None
    }

    fn deliver(&self, session: Option<SessionId>, whole: &[u8]) {
        if let Ok(message) = serde_json::from_slice(whole) {
            self.downstream.deliver(&self.backend, of_client(session), Event::Notification(message));
        }
    }

    /// Records what a call of `session` leaves behind on a connection that is not the session's own.
    pub(crate) fn learn_outcome(&self, session: SessionId, request: &CallRequest<'_>, outcome: &RpcOutcome) {
        if self.owner().session().is_none() {
            self.late.learn_outcome(session, request, outcome);
        }
    }
}

impl CallRoute {
    /// True for a call of a client that takes messages.
    fn takes_messages(&self) -> bool {
        self.listener.events.is_some() && !self.listener.ours
    }
}

/// Returns the session, if it is a client's.
fn of_client(session: Option<SessionId>) -> Option<SessionId> {
    session.filter(|session| *session != OWN_SESSION)
}

/// Returns the delivery of a log message to a caller who wants it.
fn wanted(
    listener: &CallListener,
    params: Option<&RawValue>,
    whole: &[u8],
    is_level_set: bool,
) -> Option<Delivery> {
    listener.wants_log(params, is_level_set).then(|| deliver(listener, whole)).flatten()
}

fn deliver(listener: &CallListener, whole: &[u8]) -> Option<Delivery> {
    let to = listener.events.clone()?;
    Some(Delivery { to, event: Event::Notification(serde_json::from_slice(whole).ok()?) })
}

/// The notification that tells a backend to stop working on request `id`.
pub(crate) fn cancelled(id: u64) -> Bytes {
    let params = format!(r#"{{"requestId":{id},"reason":"the caller no longer waits"}}"#);
    Bytes::from(rpc::notification(methods::CANCELLED, Some(params.into())))
}

/// Guard of a route; dropped, it ends the route and the call's open questions.
#[derive(Debug)]
pub(crate) struct RouteGuard {
    inbound: Arc<Inbound>,
    id: u64,
}

impl Drop for RouteGuard {
    fn drop(&mut self) {
        self.inbound.routes.lock().remove(&self.id);
        self.inbound.questions.end_call(self.id);
    }
}
