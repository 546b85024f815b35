//! [`TopicRegistry`]: subscriptions of clients to resources and tasks, by backend and name.
//!
//! Backends count references: two clients of one resource are one upstream subscription. Each registered
//! subscription therefore remembers the [`Backend`] at which it is counted, and gives its reference back when
//! it is removed, whatever the reason.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;

use vmcp_backend::{Backend, SessionId};

use super::mailbox::Mailbox;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::access::principal_shares::{HeldShare, LimitReached, PrincipalShares};
use vmcp_engine::telemetry::metrics::Metrics;

/// Subscriptions of one client; one more is refused.
const MAX_PER_CLIENT: usize = 1000;
/// Subscriptions of all clients of one principal; one more is refused.
const MAX_PER_PRINCIPAL: usize = 2500;
/// Subscriptions of all clients of this process, as a backstop; one more is refused.
const MAX_SUBSCRIPTIONS: usize = 100_000;

/// A resource or a task that clients can subscribe to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Topic {
    pub(crate) kind: TopicKind,
    /// The name of the backend that has the resource or the task.
    pub(crate) backend: Arc<str>,
    /// The URI or the task id, as the backend spells it.
    pub(crate) name: Arc<str>,
}

/// The kind of a [`Topic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TopicKind {
    /// Updated by `notifications/resources/updated`.
    Resource,
    /// Updated by `notifications/tasks`.
    Task,
    /// An own resource of vmcp, updated by `notifications/resources/updated`. Its backend is empty.
    Own,
}

impl Topic {
    /// Returns the topic of an own resource.
    pub(crate) fn own(uri: &str) -> Topic {
        Topic { kind: TopicKind::Own, backend: "".into(), name: uri.into() }
    }

    /// Gives one reference back to the backend; `session` is the subscribed session.
    fn release(&self, backend: &Backend, session: Option<SessionId>) {
        match self.kind {
            TopicKind::Resource => backend.unsubscribe(&self.name, session),
            TopicKind::Task => backend.unwatch_task(&self.name),
            // No backend counts it.
            TopicKind::Own => {}
        }
    }
}

/// The subscription of one client to one topic.
#[derive(Debug, Clone)]
pub(crate) struct Subscriber {
    pub(crate) mailbox: Arc<Mailbox>,
    /// The caller that subscribed, whose right is asked again when the subscription moves.
    pub(crate) principal: Principal,
    /// The id under which the client knows a task; `None` for a resource.
    pub(crate) shown: Option<Arc<str>>,
    /// The client's session, which may have subscribed on a connection of its own.
    session: Option<SessionId>,
    /// The session has subscribed on a connection of its own; updates that come to all are not for it.
    is_own: bool,
    /// The backend that counts this subscription; `None` until the backend has confirmed it, and of an own
    /// resource.
    pub(crate) counted_at: Option<Backend>,
    /// Digest of the content of an own resource that the client was last told of; `None` until the
    /// subscription is confirmed, and of all others.
    told: Option<u64>,
    /// Tells this subscription from a later one of the same client to the same topic.
    serial: u64,
    /// The place in the share of the principal.
    _held: Arc<HeldShare>,
}

impl Subscriber {
    /// Returns the client's session.
    pub(crate) fn session(&self) -> Option<SessionId> {
        self.session
    }
}

/// A subscription beyond a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SubscriptionLimit {
    #[error("a client may have at most {MAX_PER_CLIENT} subscriptions; unsubscribe from others first")]
    Client,
    #[error("the clients of one address may have at most {MAX_PER_PRINCIPAL} subscriptions")]
    Principal,
    #[error("this server has reached its limit of {MAX_SUBSCRIPTIONS} subscriptions; try again later")]
    Process,
}

/// The subscriptions of this process.
#[derive(Debug)]
pub(crate) struct TopicRegistry {
    state: Mutex<RegistryState>,
    shares: Arc<PrincipalShares>,
}

#[derive(Debug, Default)]
struct RegistryState {
    subscribers: HashMap<Topic, Vec<Subscriber>>,
    /// Topics by [`Mailbox::number`].
    of_mailbox: HashMap<u64, Vec<Topic>>,
    last_serial: u64,
}

impl TopicRegistry {
    /// Creates an empty registry.
    pub(crate) fn new(metrics: &Metrics) -> Arc<Self> {
        let shares = PrincipalShares::new("subscriptions", MAX_PER_PRINCIPAL, MAX_SUBSCRIPTIONS, metrics);
        Arc::new(Self { state: Mutex::default(), shares })
    }

    /// Reserves a subscription; `None` if the client already has it. The reservation already receives
    /// updates, so none is lost between the backend's confirmation and [`Reservation::confirm`].
    pub(crate) fn reserve(
        self: &Arc<Self>,
        mailbox: &Arc<Mailbox>,
        topic: Topic,
        principal: Principal,
        session: Option<SessionId>,
        shown: Option<Arc<str>>,
    ) -> Result<Option<Reservation>, SubscriptionLimit> {
        let mut state = self.lock();
        let own = state.of_mailbox.get(&mailbox.number).map_or(&[][..], Vec::as_slice);
        if own.contains(&topic) {
            return Ok(None);
        }
        if own.len() >= MAX_PER_CLIENT {
            return Err(SubscriptionLimit::Client);
        }
        let held = self.shares.take(principal.key()).map_err(|reached| match reached {
            LimitReached::OfPrincipal(_) => SubscriptionLimit::Principal,
            LimitReached::OfProcess(_) => SubscriptionLimit::Process,
        })?;
        state.last_serial += 1;
        let serial = state.last_serial;
        state.of_mailbox.entry(mailbox.number).or_default().push(topic.clone());
        let subscriber = Subscriber {
            mailbox: Arc::clone(mailbox),
            principal,
            shown,
            session,
            is_own: false,
            counted_at: None,
            told: None,
            serial,
            _held: Arc::new(held),
        };
        state.subscribers.entry(topic.clone()).or_default().push(subscriber);
        Ok(Some(Reservation { topics: Arc::clone(self), topic, number: mailbox.number, session, serial }))
    }

    /// Returns all subscribers of a topic that hear of it on the backend's main connection.
    pub(crate) fn subscribers(&self, topic: &Topic) -> Vec<Subscriber> {
        let state = self.lock();
        let subscribers = state.subscribers.get(topic).into_iter().flatten();
        subscribers.filter(|subscriber| !subscriber.is_own).cloned().collect()
    }

    /// Returns a subscription of the mailbox `number` to a resource of a backend.
    pub(crate) fn subscriber_at(&self, number: u64, backend: &str) -> Option<Subscriber> {
        let state = self.lock();
        let of_backend = |topic: &&Topic| topic.kind == TopicKind::Resource && *topic.backend == *backend;
        let topic = state.of_mailbox.get(&number)?.iter().find(of_backend)?;
        let mut subscribers = state.subscribers.get(topic)?.iter();
        subscribers.find(|subscriber| subscriber.mailbox.number == number).cloned()
    }

    /// Returns the topics that the mailbox `number` is subscribed to.
    pub(crate) fn topics_of(&self, number: u64) -> Vec<Topic> {
        self.lock().of_mailbox.get(&number).cloned().unwrap_or_default()
    }

    /// Gives the subscriptions of the mailbox `number` to its client as it has proved itself now: a renewed
    /// token may have other claims.
    pub(crate) fn renew_principal(&self, number: u64, principal: &Principal) {
        let mut state = self.lock();
        let RegistryState { subscribers, of_mailbox, .. } = &mut *state;
        for topic in of_mailbox.get(&number).into_iter().flatten() {
            let of_topic = subscribers.get_mut(topic).into_iter().flatten();
            for subscriber in of_topic.filter(|one| one.mailbox.number == number) {
                subscriber.principal = principal.clone();
            }
        }
    }

    /// Removes a subscription and gives its reference back to the backend.
    pub(crate) fn remove(&self, number: u64, topic: &Topic) {
        let removed = self.lock().remove(number, topic);
        if let Some(Subscriber { counted_at: Some(backend), session, .. }) = removed {
            topic.release(&backend, session);
        }
    }

    /// Removes all subscriptions of the mailbox `number`.
    pub(crate) fn remove_all(&self, number: u64) {
        for topic in self.topics_of(number) {
            self.remove(number, &topic);
        }
    }

    /// Returns the subscriptions counted at a backend that `is_current` rejects: a reload has replaced
    /// or removed it.
    pub(crate) fn outdated(&self, is_current: impl Fn(&Topic, &Backend) -> bool) -> Vec<(Topic, Subscriber)> {
        let state = self.lock();
        let all = state.subscribers.iter().flat_map(|(topic, all)| all.iter().map(move |one| (topic, one)));
        let outdated = all.filter(|(topic, one)| {
            one.counted_at.as_ref().is_some_and(|backend| !is_current(topic, backend))
        });
        outdated.map(|(topic, one)| (topic.clone(), one.clone())).collect()
    }

    /// Returns the confirmed subscriptions to own resources.
    pub(crate) fn of_own_resources(&self) -> Vec<(Topic, Subscriber)> {
        let state = self.lock();
        let own = state.subscribers.iter().filter(|(topic, _)| topic.kind == TopicKind::Own);
        let all = own.flat_map(|(topic, all)| all.iter().map(move |one| (topic, one)));
        let confirmed = all.filter(|(_, one)| one.told.is_some());
        confirmed.map(|(topic, one)| (topic.clone(), one.clone())).collect()
    }

    /// Records the digest that a subscriber of an own resource is told of. Returns true if it was another.
    pub(crate) fn tell(&self, topic: &Topic, subscriber: &Subscriber, digest: u64) -> bool {
        let mut state = self.lock();
        let same = |one: &&mut Subscriber| one.serial == subscriber.serial;
        let subscriber = state.subscribers.get_mut(topic).and_then(|all| all.iter_mut().find(same));
        subscriber.is_some_and(|one| one.told.replace(digest).is_some_and(|before| before != digest))
    }

    /// Records that `backend` now counts the subscription.
    pub(crate) fn recount(&self, topic: &Topic, subscriber: &Subscriber, backend: Backend) {
        self.count(topic, subscriber.serial, subscriber.session, backend);
    }

    /// Records the backend that counts a subscription, or gives the reference back if the subscription is
    /// gone.
    fn count(&self, topic: &Topic, serial: u64, session: Option<SessionId>, backend: Backend) {
        let is_resource = topic.kind == TopicKind::Resource;
        let is_own =
            session.is_some_and(|session| is_resource && backend.has_own_subscription(&topic.name, session));
        let mut state = self.lock();
        let subscribers = state.subscribers.get_mut(topic).into_iter().flatten();
        if let Some(subscriber) = subscribers.into_iter().find(|subscriber| subscriber.serial == serial) {
            subscriber.is_own = is_own;
            subscriber.counted_at = Some(backend);
            return;
        }
        // The client ended the subscription meanwhile. The lock is released first: the backend may take locks
        // of its own.
        drop(state);
        topic.release(&backend, session);
    }

    fn lock(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock()
    }
}

impl RegistryState {
    /// Removes a subscription from both maps.
    fn remove(&mut self, number: u64, topic: &Topic) -> Option<Subscriber> {
        let subscribers = self.subscribers.get_mut(topic)?;
        let at = subscribers.iter().position(|subscriber| subscriber.mailbox.number == number)?;
        let removed = subscribers.swap_remove(at);
        if subscribers.is_empty() {
            self.subscribers.remove(topic);
        }
        if let Some(own) = self.of_mailbox.get_mut(&number) {
            own.retain(|other| other != topic);
            if own.is_empty() {
                self.of_mailbox.remove(&number);
            }
        }
        Some(removed)
    }
}

/// A subscription that its backend has not confirmed yet. Dropping it removes the subscription.
#[derive(Debug)]
pub(crate) struct Reservation {
    topics: Arc<TopicRegistry>,
    topic: Topic,
    number: u64,
    session: Option<SessionId>,
    serial: u64,
}

impl Reservation {
    /// Records that `backend` confirmed the subscription and counts it.
    pub(crate) fn confirm(self, backend: Backend) {
        self.topics.count(&self.topic, self.serial, self.session, backend);
    }

    /// Confirms a subscription to an own resource, whose client knows the content of this digest.
    pub(crate) fn confirm_own(self, digest: u64) {
        let mut state = self.topics.lock();
        let all = state.subscribers.get_mut(&self.topic).into_iter().flatten();
        if let Some(subscriber) = all.into_iter().find(|one| one.serial == self.serial) {
            subscriber.told = Some(digest);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.topics.lock();
        let pending =
            |one: &Subscriber| one.serial == self.serial && one.counted_at.is_none() && one.told.is_none();
        if state.subscribers.get(&self.topic).is_some_and(|all| all.iter().any(pending)) {
            state.remove(self.number, &self.topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmcp_engine::engine::Generation;

    fn topic(name: &str) -> Topic {
        Topic { kind: TopicKind::Resource, backend: "b".into(), name: name.into() }
    }

    fn mailbox(number: u64) -> Arc<Mailbox> {
        Arc::new(Mailbox::new(number, None, Generation::default()))
    }

    #[test]
    fn a_reservation_that_comes_to_nothing_leaves_nothing() {
        let topics = TopicRegistry::new(&Metrics::new());
        let (one, other) = (mailbox(1), mailbox(2));
        let reserved = topics.reserve(&one, topic("a"), Principal::default(), None, None).unwrap();
        assert!(reserved.is_some());
        assert!(
            topics.reserve(&one, topic("a"), Principal::default(), None, None).unwrap().is_none(),
            "only once"
        );
        let second = topics.reserve(&other, topic("a"), Principal::default(), None, None).unwrap();
        assert_eq!(topics.subscribers(&topic("a")).len(), 2);
        drop(reserved);
        assert_eq!(topics.subscribers(&topic("a")).len(), 1);
        topics.remove_all(other.number);
        drop(second);
        let state = topics.lock();
        assert_eq!((state.subscribers.len(), state.of_mailbox.len()), (0, 0));
    }

    #[test]
    fn a_subscription_is_that_of_the_client_as_it_has_proved_itself_last() {
        let topics = TopicRegistry::new(&Metrics::new());
        let (one, other) = (mailbox(1), mailbox(2));
        let in_profile = |name: &str| Principal { profile: Some(name.into()), ..Principal::default() };
        let of_one = topics.reserve(&one, topic("a"), in_profile("before"), None, None).unwrap();
        let of_other = topics.reserve(&other, topic("a"), in_profile("other"), None, None).unwrap();
        topics.renew_principal(1, &in_profile("now"));
        let principals = topics.subscribers(&topic("a")).into_iter().map(|one| one.principal);
        assert_eq!(principals.collect::<Vec<_>>(), [in_profile("now"), in_profile("other")]);
        drop((of_one, of_other));
    }

    #[test]
    fn a_subscriber_of_an_own_resource_is_told_of_each_content_once() {
        let topics = TopicRegistry::new(&Metrics::new());
        let (one, topic) = (mailbox(1), Topic::own("vmcp://status"));
        let reserved = topics.reserve(&one, topic.clone(), Principal::default(), None, None).unwrap();
        assert!(topics.of_own_resources().is_empty(), "not confirmed");
        reserved.unwrap().confirm_own(7);
        let [(_, subscriber)] = &topics.of_own_resources()[..] else { panic!("one subscriber") };
        assert!(!topics.tell(&topic, subscriber, 7));
        assert!(topics.tell(&topic, subscriber, 8));
        assert!(!topics.tell(&topic, subscriber, 8));
        topics.remove_all(1);
        assert!(!topics.tell(&topic, subscriber, 9), "gone");
        assert!(topics.lock().subscribers.is_empty());
    }

    #[test]
    fn one_client_cannot_have_everything() {
        let topics = TopicRegistry::new(&Metrics::new());
        let greedy = mailbox(1);
        let taken: Vec<_> = (0..MAX_PER_CLIENT)
            .filter_map(|n| {
                topics.reserve(&greedy, topic(&n.to_string()), Principal::default(), None, None).unwrap()
            })
            .collect();
        assert_eq!(taken.len(), MAX_PER_CLIENT);
        assert_eq!(
            topics.reserve(&greedy, topic("x"), Principal::default(), None, None).unwrap_err(),
            SubscriptionLimit::Client
        );
        assert!(topics.reserve(&mailbox(2), topic("x"), Principal::default(), None, None).unwrap().is_some());
    }

    #[test]
    fn one_address_cannot_have_everything_with_many_sessions() {
        let topics = TopicRegistry::new(&Metrics::new());
        let reserve = |number: usize, address: [u8; 4]| {
            let principal = Principal { address: Some(address.into()), ..Principal::default() };
            topics.reserve(&mailbox(number as u64), topic(&number.to_string()), principal, None, None)
        };
        let taken: Vec<_> =
            (0..MAX_PER_PRINCIPAL).filter_map(|n| reserve(n, [10, 0, 0, 1]).unwrap()).collect();
        assert_eq!(taken.len(), MAX_PER_PRINCIPAL);
        assert_eq!(reserve(9_000, [10, 0, 0, 1]).unwrap_err(), SubscriptionLimit::Principal);
        assert!(reserve(9_000, [10, 0, 0, 2]).unwrap().is_some());
    }
}
