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

/// Sessions of which something is kept. Of more, one that does not listen is forgotten, as if its client had done nothing.
const MOST: usize = 100_000;

/// The backends of a snapshot.
pub(crate) type Backends = Arc<BTreeMap<Arc<str>, Backend>>;

/// What is kept of one session.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) session: SessionId,
    /// When the session ends, in seconds since 1970.
    expires: u64,
    pub(crate) mailbox: Arc<Mailbox>,
    level: Mutex<Option<Level>>,
    /// Those who were told that the session listens.
    told: Mutex<Option<Backends>>,
}

impl Kept {
    /// The log level that the client asked for.
    pub(crate) fn level(&self) -> Option<Level> {
        *self.level.lock()
    }

    /// Notes the log level.
    pub(crate) fn set_level(&self, level: Level) {
        *self.level.lock() = Some(level);
    }

    /// Tells the backends whether the session listens, if that has changed. To be called after anything that may have.
    pub(crate) fn announce(&self, backends: &Backends) {
        let mut told = self.told.lock();
        let now = self.mailbox.is_read().then(|| Arc::clone(backends));
        let (before, now) = (std::mem::replace(&mut *told, now.clone()), now);
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

/// All that is kept.
#[derive(Debug, Default)]
pub(crate) struct KeptSessions {
    all: Mutex<HashMap<SessionId, Arc<Kept>>>,
    last_number: AtomicU64,
}

impl KeptSessions {
    /// A number for a mailbox.
    pub(crate) fn number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// What is kept of a session.
    pub(crate) fn get(&self, session: SessionId) -> Option<Arc<Kept>> {
        self.lock().get(&session).cloned()
    }

    /// What is kept of a session from now on; and the one that had to be forgotten for it.
    pub(crate) fn keep(
        &self,
        session: SessionId,
        expires: u64,
        seen: Generation,
    ) -> (Arc<Kept>, Option<Arc<Kept>>) {
        let mut all = self.lock();
        if let Some(kept) = all.get(&session) {
            return (Arc::clone(kept), None);
        }
        let mut forgotten = None;
        if all.len() >= MOST {
            let silent = all.values().filter(|kept| !kept.mailbox.is_read());
            let first = silent.min_by_key(|kept| kept.expires).or_else(|| all.values().next());
            forgotten = first.map(|kept| kept.session).and_then(|session| all.remove(&session));
        }
        let kept = Arc::new(Kept {
            session,
            expires,
            mailbox: Arc::new(Mailbox::new(self.number(), None, seen)),
            level: Mutex::default(),
            told: Mutex::default(),
        });
        all.insert(session, Arc::clone(&kept));
        (kept, forgotten)
    }

    /// Forgets a session of which nothing is worth keeping; `subscribes` says whether the owner of a mailbox does.
    pub(crate) fn tidy(&self, kept: Arc<Kept>, subscribes: impl FnOnce(u64) -> bool) {
        let (session, mut all) = (kept.session, self.lock());
        drop(kept);
        // Whoever is about to do something with it has got it from here.
        let unused = |kept: &Arc<Kept>| {
            let idle = Arc::strong_count(kept) == 1 && kept.level().is_none();
            idle && !kept.mailbox.is_read() && !subscribes(kept.mailbox.number)
        };
        if all.get(&session).is_some_and(unused) {
            all.remove(&session);
        }
    }

    /// Takes out what is kept of a session that has ended.
    pub(crate) fn remove(&self, session: SessionId) -> Option<Arc<Kept>> {
        self.lock().remove(&session)
    }

    /// The sessions that have expired.
    pub(crate) fn expired(&self, now: u64) -> Vec<SessionId> {
        self.lock().values().filter(|kept| kept.expires <= now).map(|kept| kept.session).collect()
    }

    /// Everything.
    pub(crate) fn all(&self) -> Vec<Arc<Kept>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Kept>>> {
        self.all.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(sessions: &KeptSessions, session: u8, expires: u64) -> Arc<Kept> {
        sessions.keep([session; 16], expires, Generation::default()).0
    }

    #[test]
    fn nothing_is_kept_of_a_session_that_does_nothing() {
        let sessions = KeptSessions::default();
        let kept = keep(&sessions, 1, 9);
        let stream = kept.mailbox.open_stream();
        sessions.tidy(Arc::clone(&kept), |_| false);
        kept.mailbox.close_stream(stream);
        sessions.tidy(Arc::clone(&kept), |_| false);
        assert!(sessions.get([1; 16]).is_some(), "somebody is about to do something with it");
        sessions.tidy(kept, |_| true);
        assert!(sessions.get([1; 16]).is_some(), "it subscribes");
        sessions.tidy(keep(&sessions, 1, 9), |_| false);
        assert!(sessions.get([1; 16]).is_none());
        let kept = keep(&sessions, 2, 9);
        kept.set_level(Level::Error);
        sessions.tidy(kept, |_| false);
        assert_eq!(sessions.get([2; 16]).and_then(|kept| kept.level()), Some(Level::Error));
    }

    #[test]
    fn what_has_expired_is_found() {
        let sessions = KeptSessions::default();
        keep(&sessions, 1, 5);
        keep(&sessions, 2, 6);
        assert_eq!(sessions.expired(5), [[1; 16]]);
    }
}
