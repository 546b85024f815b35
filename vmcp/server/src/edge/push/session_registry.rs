//! [`SessionRegistry`]: state of legacy sessions that this process keeps in memory.
//!
//! A session is sealed into its id, so most sessions need no memory here. Registered are only those that
//! opened a stream, subscribed to a resource or chose a log level in this process.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vmcp_backend::{Backend, SessionId};
use vmcp_wire::level::Level;

use super::mailbox::Mailbox;
use crate::engine::Generation;

/// Registered sessions; one more evicts another: the first to expire among those without a stream, or any if
/// all have one.
const MAX_SESSIONS: usize = 100_000;

/// The backends of a snapshot, by name.
pub(crate) type Backends = Arc<BTreeMap<Arc<str>, Backend>>;

/// The state of one session in this process.
#[derive(Debug)]
pub(crate) struct RegisteredSession {
    pub(crate) session: SessionId,
    /// End of the session, in seconds since 1970.
    expires: u64,
    pub(crate) mailbox: Arc<Mailbox>,
    /// The level of `logging/setLevel`; `None` if the client never set one.
    level: Mutex<Option<Level>>,
    /// The backends that were told that this session has an open stream; `None` while it has none.
    announced_to: Mutex<Option<Backends>>,
}

impl RegisteredSession {
    /// Returns the log level that the client set.
    pub(crate) fn level(&self) -> Option<Level> {
        *self.level.lock()
    }

    /// Stores the log level.
    pub(crate) fn set_level(&self, level: Level) {
        *self.level.lock() = Some(level);
    }

    /// Tells backends that the session opened or closed its streams, if that changed: only while a stream is
    /// open do backends hold a push stream of their own for it. Call after each change of the streams or of
    /// the backends; each backend hears `true` and `false` in pairs.
    pub(crate) fn announce_listening(&self, backends: &Backends) {
        let mut announced_to = self.announced_to.lock();
        let now = self.mailbox.has_open_stream().then(|| Arc::clone(backends));
        let (before, now) = (std::mem::replace(&mut *announced_to, now.clone()), now);
        if before.as_ref().zip(now.as_ref()).is_some_and(|(before, now)| Arc::ptr_eq(before, now)) {
            return;
        }
        let among = |backend: &Backend, all: &Option<Backends>| {
            let same = all.as_ref().and_then(|all| all.get(backend.name()));
            same.is_some_and(|other| backend.is(other))
        };
        for backend in now.iter().flat_map(|now| now.values()).filter(|backend| !among(backend, &before)) {
            backend.listen_session(self.session, true);
        }
        for backend in before.iter().flat_map(|all| all.values()).filter(|backend| !among(backend, &now)) {
            backend.listen_session(self.session, false);
        }
    }
}

/// The registered sessions of this process.
#[derive(Debug, Default)]
pub(crate) struct SessionRegistry {
    all: Mutex<HashMap<SessionId, Arc<RegisteredSession>>>,
    last_number: AtomicU64,
}

impl SessionRegistry {
    /// Returns a mailbox number that this process has not used before.
    pub(crate) fn next_mailbox_number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the registration of a session.
    pub(crate) fn get(&self, session: SessionId) -> Option<Arc<RegisteredSession>> {
        self.lock().get(&session).cloned()
    }

    /// Returns the registration of a session, made if there is none, and the one evicted for it from a full
    /// registry.
    pub(crate) fn register(
        &self,
        session: SessionId,
        expires: u64,
        seen: Generation,
    ) -> (Arc<RegisteredSession>, Option<Arc<RegisteredSession>>) {
        let mut all = self.lock();
        if let Some(registered) = all.get(&session) {
            return (Arc::clone(registered), None);
        }
        let mut evicted = None;
        if all.len() >= MAX_SESSIONS {
            // Sessions without a stream go first: evicting them costs the client a log level or a queued
            // update only.
            let silent = all.values().filter(|registered| !registered.mailbox.has_open_stream());
            let first = silent.min_by_key(|registered| registered.expires).or_else(|| all.values().next());
            evicted = first.map(|registered| registered.session).and_then(|session| all.remove(&session));
        }
        let registered = Arc::new(RegisteredSession {
            session,
            expires,
            mailbox: Arc::new(Mailbox::new(self.next_mailbox_number(), None, seen)),
            level: Mutex::default(),
            announced_to: Mutex::default(),
        });
        all.insert(session, Arc::clone(&registered));
        (registered, evicted)
    }

    /// Removes a registration that nothing uses: no stream, no subscription, no log level. `subscribes` tells
    /// whether a mailbox has subscriptions.
    pub(crate) fn remove_if_unused(
        &self,
        registered: Arc<RegisteredSession>,
        subscribes: impl FnOnce(u64) -> bool,
    ) {
        let (session, mut all) = (registered.session, self.lock());
        drop(registered);
        // Every user of a registration holds an `Arc` of it. With the map locked and one reference left, no
        // task can be about to open a stream on it.
        let unused = |registered: &Arc<RegisteredSession>| {
            let idle = Arc::strong_count(registered) == 1 && registered.level().is_none();
            idle && !registered.mailbox.has_open_stream() && !subscribes(registered.mailbox.number)
        };
        if all.get(&session).is_some_and(unused) {
            all.remove(&session);
        }
    }

    /// Removes and returns the registration of a session that ended.
    pub(crate) fn remove(&self, session: SessionId) -> Option<Arc<RegisteredSession>> {
        self.lock().remove(&session)
    }

    /// Returns the sessions whose lifetime is over.
    pub(crate) fn expired(&self, now: u64) -> Vec<SessionId> {
        self.lock()
            .values()
            .filter(|registered| registered.expires <= now)
            .map(|registered| registered.session)
            .collect()
    }

    /// Returns all registrations.
    pub(crate) fn all(&self) -> Vec<Arc<RegisteredSession>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<RegisteredSession>>> {
        self.all.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(sessions: &SessionRegistry, session: u8, expires: u64) -> Arc<RegisteredSession> {
        sessions.register([session; 16], expires, Generation::default()).0
    }

    #[test]
    fn nothing_is_kept_of_a_session_that_does_nothing() {
        let sessions = SessionRegistry::default();
        let registered = register(&sessions, 1, 9);
        let stream = registered.mailbox.open_stream();
        sessions.remove_if_unused(Arc::clone(&registered), |_| false);
        registered.mailbox.close_stream(stream);
        sessions.remove_if_unused(Arc::clone(&registered), |_| false);
        assert!(sessions.get([1; 16]).is_some(), "somebody is about to do something with it");
        sessions.remove_if_unused(registered, |_| true);
        assert!(sessions.get([1; 16]).is_some(), "it subscribes");
        sessions.remove_if_unused(register(&sessions, 1, 9), |_| false);
        assert!(sessions.get([1; 16]).is_none());
        let registered = register(&sessions, 2, 9);
        registered.set_level(Level::Error);
        sessions.remove_if_unused(registered, |_| false);
        assert_eq!(sessions.get([2; 16]).and_then(|registered| registered.level()), Some(Level::Error));
    }

    #[test]
    fn what_has_expired_is_found() {
        let sessions = SessionRegistry::default();
        register(&sessions, 1, 5);
        register(&sessions, 2, 6);
        assert_eq!(sessions.expired(5), [[1; 16]]);
    }
}
