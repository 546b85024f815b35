//! What this process keeps of legacy sessions, beyond what their ids hold: only of those that listen, subscribe or chose
//! a log level here.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vmcp_backend::{Backend, SessionId};
use vmcp_wire::level::Level;

use super::mailbox::Mailbox;
use crate::engine::Generation;

/// Sessions of which something is registered. Of more, one that does not listen is evicted, as if its client had done nothing.
const MAX_SESSIONS: usize = 100_000;

/// The backends of a snapshot.
pub(crate) type Backends = Arc<BTreeMap<Arc<str>, Backend>>;

/// What is registered of one session.
#[derive(Debug)]
pub(crate) struct RegisteredSession {
    pub(crate) session: SessionId,
    /// When the session ends, in seconds since 1970.
    expires: u64,
    pub(crate) mailbox: Arc<Mailbox>,
    level: Mutex<Option<Level>>,
    /// Those who were announced_to that the session listens.
    announced_to: Mutex<Option<Backends>>,
}

impl RegisteredSession {
    /// The log level that the client asked for.
    pub(crate) fn level(&self) -> Option<Level> {
        *self.level.lock()
    }

    /// Notes the log level.
    pub(crate) fn set_level(&self, level: Level) {
        *self.level.lock() = Some(level);
    }

    /// Tells the backends whether the session listens, if that has changed. To be called after anything that may have.
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

/// All that is registered.
#[derive(Debug, Default)]
pub(crate) struct SessionRegistry {
    all: Mutex<HashMap<SessionId, Arc<RegisteredSession>>>,
    last_number: AtomicU64,
}

impl SessionRegistry {
    /// A number for a mailbox.
    pub(crate) fn next_mailbox_number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// What is registered of a session.
    pub(crate) fn get(&self, session: SessionId) -> Option<Arc<RegisteredSession>> {
        self.lock().get(&session).cloned()
    }

    /// What is registered of a session from now on; and the one that had to be evicted for it.
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

    /// Forgets a session of which nothing is worth keeping; `subscribes` says whether the owner of a mailbox does.
    pub(crate) fn remove_if_unused(
        &self,
        registered: Arc<RegisteredSession>,
        subscribes: impl FnOnce(u64) -> bool,
    ) {
        let (session, mut all) = (registered.session, self.lock());
        drop(registered);
        // Whoever is about to do something with it has got it from here.
        let unused = |registered: &Arc<RegisteredSession>| {
            let idle = Arc::strong_count(registered) == 1 && registered.level().is_none();
            idle && !registered.mailbox.has_open_stream() && !subscribes(registered.mailbox.number)
        };
        if all.get(&session).is_some_and(unused) {
            all.remove(&session);
        }
    }

    /// Takes out what is registered of a session that has ended.
    pub(crate) fn remove(&self, session: SessionId) -> Option<Arc<RegisteredSession>> {
        self.lock().remove(&session)
    }

    /// The sessions that have expired.
    pub(crate) fn expired(&self, now: u64) -> Vec<SessionId> {
        self.lock()
            .values()
            .filter(|registered| registered.expires <= now)
            .map(|registered| registered.session)
            .collect()
    }

    /// Everything.
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
