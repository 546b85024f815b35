//! [`SessionRegistry`]: state of legacy sessions that this process keeps in memory.
//!
//! A session is sealed into its id, so most sessions need no memory here. Registered are only sessions
//! that opened a stream, subscribed to a resource or chose a log level in this process; remembered are
//! sessions that their clients ended here, until their ids expire.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lru::LruCache;
use vmcp_backend::{Backend, SessionId};
use vmcp_wire::level::Level;

use super::mailbox::Mailbox;
use vmcp_engine::access::identity::PrincipalKey;
use vmcp_engine::access::principal_shares::{HeldShare, LimitReached, PrincipalShares};
use vmcp_engine::engine::{Generation, ListDigests};
use vmcp_engine::telemetry::metrics::Metrics;

/// Registered and ended sessions of this process, as a backstop; one more evicts another.
const MAX_SESSIONS: usize = 100_000;
/// Registered and ended sessions of one principal; one more evicts another of the same principal.
const MAX_SESSIONS_PER_PRINCIPAL: usize = 25_000;
/// Sessions that are looked at for one without a stream, so that an eviction costs the same whatever their
/// number.
const MAX_EVICTION_LOOKUPS: usize = 64;
/// Sessions without a registration of which it is known what they have seen, some 100 bytes each; the least
/// recently used is forgotten and told of changes once too often.
const MAX_SEEN: NonZeroUsize = NonZeroUsize::new(20_000).unwrap();

/// The backends of a snapshot, by name.
pub(crate) type Backends = Arc<BTreeMap<Arc<str>, Backend>>;

/// The state of one session in this process.
#[derive(Debug)]
pub(crate) struct RegisteredSession {
    pub(crate) session: SessionId,
    /// The principal whose share the session takes.
    pub(crate) principal: PrincipalKey,
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
#[derive(Debug)]
pub(crate) struct SessionRegistry {
    table: Mutex<SessionTable>,
    shares: Arc<PrincipalShares>,
    last_number: AtomicU64,
}

/// A session and its place in the share of its principal.
#[derive(Debug)]
struct Entry {
    state: SessionState,
    principal: PrincipalKey,
    /// End of the session, in seconds since 1970.
    expires: u64,
    _held: HeldShare,
}

/// State of a session in this process.
#[derive(Debug)]
enum SessionState {
    Registered(Arc<RegisteredSession>),
    /// Its client ended it: the id is refused until it expires.
    Ended,
}

impl Entry {
    fn registered(&self) -> Option<&Arc<RegisteredSession>> {
        match &self.state {
            SessionState::Registered(registered) => Some(registered),
            SessionState::Ended => None,
        }
    }

    fn into_registered(self) -> Option<Arc<RegisteredSession>> {
        match self.state {
            SessionState::Registered(registered) => Some(registered),
            SessionState::Ended => None,
        }
    }
}

/// A queue of sessions, the first to expire in front.
type ExpiryQueue = BTreeSet<(u64, SessionId)>;

#[derive(Debug)]
struct SessionTable {
    sessions: HashMap<SessionId, Entry>,
    expiry: ExpiryQueue,
    of_principal: HashMap<PrincipalKey, ExpiryQueue>,
    /// The list generations, and the lists, that sessions had seen when their registration was removed.
    seen: LruCache<SessionId, (Generation, Option<ListDigests>)>,
}

impl SessionTable {
    fn insert(&mut self, session: SessionId, entry: Entry) {
        let at = (entry.expires, session);
        self.expiry.insert(at);
        self.of_principal.entry(entry.principal).or_default().insert(at);
        self.sessions.insert(session, entry);
    }

    fn remove(&mut self, session: SessionId) -> Option<Entry> {
        let entry = self.sessions.remove(&session)?;
        let at = (entry.expires, session);
        self.expiry.remove(&at);
        if let Some(own) = self.of_principal.get_mut(&entry.principal) {
            own.remove(&at);
            if own.is_empty() {
                self.of_principal.remove(&entry.principal);
            }
        }
        Some(entry)
    }

    fn registered(&self, session: SessionId) -> Option<&Arc<RegisteredSession>> {
        self.sessions.get(&session)?.registered()
    }

    fn has_ended(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|entry| matches!(entry.state, SessionState::Ended))
    }

    /// Removes one of the [`MAX_EVICTION_LOOKUPS`] sessions that expire first: the first one without an open
    /// stream, else the first. A session without a stream loses its log level and a queued update; an ended
    /// session is accepted again.
    fn evict(&mut self, principal: Option<PrincipalKey>) -> Option<Entry> {
        let queue = principal.map_or(Some(&self.expiry), |principal| self.of_principal.get(&principal))?;
        let silent = |(_, session): &&(u64, SessionId)| {
            self.registered(*session).is_none_or(|registered| !registered.mailbox.has_open_stream())
        };
        let chosen = queue.iter().take(MAX_EVICTION_LOOKUPS).find(silent).or_else(|| queue.first())?.1;
        self.remove(chosen)
    }
}

impl SessionRegistry {
    /// Creates an empty registry.
    pub(crate) fn new(metrics: &Metrics) -> SessionRegistry {
        let shares = PrincipalShares::new("sessions", MAX_SESSIONS_PER_PRINCIPAL, MAX_SESSIONS, metrics);
        let table = SessionTable {
            sessions: HashMap::new(),
            expiry: BTreeSet::new(),
            of_principal: HashMap::new(),
            seen: LruCache::sparse(MAX_SEEN),
        };
        SessionRegistry { table: Mutex::new(table), shares, last_number: AtomicU64::new(0) }
    }

    /// Returns a mailbox number that this process has not used before.
    pub(crate) fn next_mailbox_number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the registration of a session.
    pub(crate) fn get(&self, session: SessionId) -> Option<Arc<RegisteredSession>> {
        self.lock().registered(session).map(Arc::clone)
    }

    /// Returns true if the session was ended in this process.
    pub(crate) fn has_ended(&self, session: SessionId) -> bool {
        self.lock().has_ended(session)
    }

    /// Returns the registration of a session, made if there is none, and those evicted for it: of the same
    /// principal at its share, of any principal at the limit of the process. `known` are the list generations
    /// that a session knows of which nothing is remembered. A session that was ended gets a registration that
    /// nothing reaches.
    pub(crate) fn register(
        &self,
        session: SessionId,
        principal: PrincipalKey,
        expires: u64,
        known: Generation,
    ) -> (Arc<RegisteredSession>, Vec<Arc<RegisteredSession>>) {
        let mut table = self.lock();
        if let Some(registered) = table.registered(session) {
            return (Arc::clone(registered), Vec::new());
        }
        let (seen, lists) = table.seen.pop(&session).unwrap_or((known, None));
        let registered = Arc::new(RegisteredSession {
            session,
            principal,
            mailbox: Arc::new(Mailbox::new(self.next_mailbox_number(), None, seen)),
            level: Mutex::default(),
            announced_to: Mutex::default(),
        });
        registered.mailbox.know_lists(lists);
        if table.has_ended(session) {
            registered.mailbox.close();
            return (registered, Vec::new());
        }
        let mut evicted = Vec::new();
        // Without room the session is served unregistered, until its stream ends.
        if let Some(held) = self.make_room(&mut table, principal, &mut evicted) {
            let state = SessionState::Registered(Arc::clone(&registered));
            table.insert(session, Entry { state, principal, expires, _held: held });
        }
        (registered, evicted)
    }

    /// Takes a place in the share of a principal, and evicts others for it.
    fn make_room(
        &self,
        table: &mut SessionTable,
        principal: PrincipalKey,
        evicted: &mut Vec<Arc<RegisteredSession>>,
    ) -> Option<HeldShare> {
        loop {
            let of = match self.shares.take(principal) {
                Ok(held) => return Some(held),
                Err(LimitReached::OfPrincipal(_)) => Some(principal),
                Err(LimitReached::OfProcess(_)) => None,
            };
            evicted.extend(table.evict(of)?.into_registered());
        }
    }

    /// Ends a session in this process; other processes accept its id until it expires. Returns its
    /// registration and the evicted registrations.
    pub(crate) fn end(
        &self,
        session: SessionId,
        principal: PrincipalKey,
        expires: u64,
    ) -> Vec<Arc<RegisteredSession>> {
        let mut table = self.lock();
        table.seen.pop(&session);
        if let Some(entry) = table.sessions.get_mut(&session) {
            let before = std::mem::replace(&mut entry.state, SessionState::Ended);
            return match before {
                SessionState::Registered(registered) => vec![registered],
                SessionState::Ended => Vec::new(),
            };
        }
        let mut evicted = Vec::new();
        if let Some(held) = self.make_room(&mut table, principal, &mut evicted) {
            table.insert(session, Entry { state: SessionState::Ended, principal, expires, _held: held });
        }
        evicted
    }

    /// Removes a registration that nothing uses: no stream, no subscription, no log level. `subscribes` tells
    /// whether a mailbox has subscriptions.
    pub(crate) fn remove_if_unused(
        &self,
        registered: Arc<RegisteredSession>,
        subscribes: impl FnOnce(u64) -> bool,
    ) {
        let (session, mut table) = (registered.session, self.lock());
        drop(registered);
        // Every user of a registration holds an `Arc` of it. With the map locked and one reference left, no
        // task can be about to open a stream on it.
        let unused = |registered: &Arc<RegisteredSession>| {
            let idle = Arc::strong_count(registered) == 1 && registered.level().is_none();
            idle && !registered.mailbox.has_open_stream() && !subscribes(registered.mailbox.number)
        };
        if table.registered(session).is_some_and(unused)
            && let Some(removed) = table.remove(session).and_then(Entry::into_registered)
        {
            table.seen.put(session, (removed.mailbox.seen(), removed.mailbox.known_lists()));
        }
    }

    /// Removes and returns the registration of a session that is over.
    pub(crate) fn remove(&self, session: SessionId) -> Option<Arc<RegisteredSession>> {
        let mut table = self.lock();
        table.seen.pop(&session);
        table.registered(session)?;
        table.remove(session)?.into_registered()
    }

    /// Forgets the ended sessions whose ids have expired, and returns the registered ones.
    pub(crate) fn expired(&self, now: u64) -> Vec<SessionId> {
        let mut table = self.lock();
        let expired = table.expiry.iter().take_while(|(expires, _)| *expires <= now);
        let expired: Vec<SessionId> = expired.map(|(_, session)| *session).collect();
        let (ended, registered): (Vec<_>, Vec<_>) =
            expired.into_iter().partition(|session| table.has_ended(*session));
        for session in ended {
            table.remove(session);
        }
        registered
    }

    /// Returns all registrations.
    pub(crate) fn all(&self) -> Vec<Arc<RegisteredSession>> {
        self.lock().sessions.values().filter_map(Entry::registered).map(Arc::clone).collect()
    }

    fn lock(&self) -> MutexGuard<'_, SessionTable> {
        self.table.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmcp_engine::access::identity::Principal;

    fn register(sessions: &SessionRegistry, session: u8, expires: u64) -> Arc<RegisteredSession> {
        sessions.register([session; 16], Principal::default().key(), expires, Generation::default()).0
    }

    #[test]
    fn nothing_is_kept_of_a_session_that_does_nothing() {
        let sessions = SessionRegistry::new(&Metrics::new());
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
        let sessions = SessionRegistry::new(&Metrics::new());
        register(&sessions, 1, 5);
        register(&sessions, 2, 6);
        assert_eq!(sessions.expired(5), [[1; 16]]);
    }

    #[test]
    fn an_ended_session_is_refused_until_it_expires() {
        let sessions = SessionRegistry::new(&Metrics::new());
        let key = Principal::default().key();
        let registered = register(&sessions, 1, 5);
        assert_eq!(sessions.end([1; 16], key, 5).len(), 1, "its registration");
        assert!(sessions.end([1; 16], key, 5).is_empty() && sessions.end([2; 16], key, 7).is_empty());
        assert!(sessions.has_ended([1; 16]) && sessions.has_ended([2; 16]) && !sessions.has_ended([3; 16]));
        assert!(sessions.get([1; 16]).is_none() && sessions.all().is_empty());
        let late = register(&sessions, 1, 5);
        assert!(!Arc::ptr_eq(&late, &registered) && sessions.get([1; 16]).is_none());
        assert!(sessions.remove([1; 16]).is_none() && sessions.has_ended([1; 16]), "the end stays");
        assert!(sessions.expired(6).is_empty());
        assert!(!sessions.has_ended([1; 16]) && sessions.has_ended([2; 16]));
        assert_eq!(sessions.lock().expiry.len(), 1);
    }

    #[test]
    fn a_session_whose_stream_ended_is_not_told_twice() {
        let sessions = SessionRegistry::new(&Metrics::new());
        let told = Generation { tools: 7, ..Generation::default() };
        let registered = register(&sessions, 1, 9);
        let stream = registered.mailbox.open_stream();
        registered.mailbox.catch_up(stream, told);
        registered.mailbox.close_stream(stream);
        sessions.remove_if_unused(registered, |_| false);
        let again = register(&sessions, 1, 9);
        let stream = again.mailbox.open_stream();
        assert_eq!(again.mailbox.catch_up(stream, told), Some(told));
    }

    #[test]
    fn at_its_share_a_principal_loses_a_session_of_its_own() {
        let metrics = Metrics::new();
        let shares = PrincipalShares::new("sessions", 2, 3, &metrics);
        let sessions = SessionRegistry { shares, ..SessionRegistry::new(&metrics) };
        let key =
            |address: [u8; 4]| Principal { address: Some(address.into()), ..Principal::default() }.key();
        let register = |session: u8, address: u8, expires| {
            let key = key([10, 0, 0, address]);
            let (registered, evicted) = sessions.register([session; 16], key, expires, Generation::default());
            (registered, evicted.iter().map(|one| one.session[0]).collect::<Vec<_>>())
        };
        let (honest, _) = register(9, 2, 1);
        honest.mailbox.open_stream();
        let (listens, _) = register(1, 1, 5);
        listens.mailbox.open_stream();
        assert_eq!(register(2, 1, 6).1, [] as [u8; 0]);
        assert_eq!(register(3, 1, 7).1, [2], "the first without a stream");
        assert_eq!(register(4, 3, 8).1, [3], "the backstop");
        assert!(sessions.get([9; 16]).is_some() && sessions.get([1; 16]).is_some());
        let table = sessions.lock();
        assert_eq!((table.expiry.len(), table.of_principal.len()), (3, 3));
    }
}
