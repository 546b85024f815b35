//! [`Sessions`]: legacy sessions, sealed into their ids.
//!
//! A session id carries the whole session, encrypted, so any process with the key can serve it. Opened
//! sessions are cached, so that an id is unsealed once and not with each request.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use vmcp_backend::ClientFacts;
use vmcp_json::object::Object;
use vmcp_wire::sealed::KeyRing;
use vmcp_wire::sealed::{session::Session, session::SessionError};

use vmcp_engine::access::identity::Principal;
use vmcp_engine::random::{now, now_millis, random};

/// Lifetime of a session, in seconds. A client whose session expired opens another without its user noticing.
pub(crate) const LIFETIME_SECS: u64 = 24 * 60 * 60;
/// Cached sessions, about 1 KiB each; beyond it the whole cache is cleared.
const MAX_OPENED: usize = 10_000;
/// Bytes of the ids and the introductions of cached sessions; beyond them likewise. An introduction has 3 KiB
/// at most.
const MAX_OPENED_BYTES: usize = 24 << 20;

/// The cached sessions of this process.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: Mutex<OpenedSessions>,
}

/// A cache of sessions by id, valid for one key ring only: after a change of keys an id must be unsealed
/// again.
#[derive(Debug, Default)]
struct OpenedSessions {
    ring: Option<Arc<KeyRing>>,
    sessions: HashMap<Box<str>, Arc<OpenedSession>>,
    bytes: usize,
}

impl OpenedSessions {
    /// Keeps a session under its id, in place of all others where the room is full.
    fn keep(&mut self, id: &str, known: &Arc<OpenedSession>) {
        let Session { client_info, client_capabilities, .. } = &known.session;
        // Both are kept twice: as the session has them, and as backends are told them.
        let bytes = id.len() + 2 * (client_info.len() + client_capabilities.len());
        if self.sessions.len() >= MAX_OPENED || self.bytes + bytes > MAX_OPENED_BYTES {
            self.sessions.clear();
            self.bytes = 0;
        }
        if self.sessions.insert(id.into(), Arc::clone(known)).is_none() {
            self.bytes += bytes;
        }
    }
}

/// An unsealed session, with the parts that each request needs already parsed.
#[derive(Debug, Clone)]
pub(crate) struct OpenedSession {
    pub(crate) session: Session,
    /// The facts that backends may be told about the client.
    pub(crate) client: ClientFacts,
    /// The client's name, from its `clientInfo`.
    pub(crate) name: Option<Box<str>>,
}

impl From<Session> for OpenedSession {
    fn from(session: Session) -> Self {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).ok().map(Arc::from);
        let client = ClientFacts {
            info: raw(&session.client_info),
            capabilities: raw(&session.client_capabilities),
            ..ClientFacts::default()
        };
        let info = client.info.as_deref().and_then(|info| Object::parse(info).ok());
        let name = info.and_then(|info| info.get_str("name")).map(Box::from);
        Self { session, client, name }
    }
}

/// The time for which a session is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionLife {
    /// Its opening, in milliseconds since 1970.
    pub(crate) began: u64,
    /// Its expiry, in seconds since 1970.
    pub(crate) expires: u64,
}

impl SessionLife {
    /// The life of requests without a session, and of the one session of stdio: it ends with the process, and
    /// has seen every change of a list that this process made.
    pub(crate) const PROCESS: SessionLife = SessionLife { began: u64::MAX, expires: u64::MAX };
}

impl From<&Session> for SessionLife {
    fn from(session: &Session) -> Self {
        SessionLife { began: session.began, expires: session.expires }
    }
}

/// A session id that is not served; answered with HTTP 404, on which the client opens a new session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SessionNotFound {
    #[error("session not found: {0}")]
    Unknown(#[source] SessionError),
    #[error("session not found: it was ended")]
    Ended,
    /// A genuine id in the wrong hands; the client is not told so.
    #[error("session not found")]
    OfAnotherIdentity,
}

/// Begins a session now: gives it an id and an expiry, and seals it into the value of `Mcp-Session-Id`.
pub(crate) fn begin(ring: &KeyRing, mut session: Session) -> Result<(Session, String), SessionError> {
    session.id = random();
    session.began = now_millis();
    session.expires = now().saturating_add(LIFETIME_SECS);
    let id = session.seal(ring, &random())?;
    Ok((session, id))
}

impl Sessions {
    /// Returns the session that `id` holds. It may have been ended, which the registry of sessions knows.
    pub(crate) fn get(
        &self,
        ring: &Arc<KeyRing>,
        principal: &Principal,
        id: &str,
    ) -> Result<Arc<OpenedSession>, SessionNotFound> {
        match self.cached(ring, id) {
            Some(known) if known.session.identity == principal.binding() => Ok(known),
            _ => self.unseal(ring, principal, id),
        }
    }

    /// Returns a cached session that has not expired. A change of `ring` empties the cache.
    fn cached(&self, ring: &Arc<KeyRing>, id: &str) -> Option<Arc<OpenedSession>> {
        let mut open = self.open.lock();
        if !open.ring.as_ref().is_some_and(|known| Arc::ptr_eq(known, ring)) {
            *open = OpenedSessions { ring: Some(Arc::clone(ring)), ..OpenedSessions::default() };
        }
        open.sessions.get(id).filter(|known| known.session.expires > now()).cloned()
    }

    /// Unseals a session and caches it.
    fn unseal(
        &self,
        ring: &Arc<KeyRing>,
        principal: &Principal,
        id: &str,
    ) -> Result<Arc<OpenedSession>, SessionNotFound> {
        let session = Session::open(ring, id, &principal.binding(), now()).map_err(|error| match error {
            SessionError::Identity => SessionNotFound::OfAnotherIdentity,
            error => SessionNotFound::Unknown(error),
        })?;
        let known = Arc::new(OpenedSession::from(session));
        let mut open = self.open.lock();
        // Not cached if the keys changed while this session was unsealed.
        if open.ring.as_ref().is_some_and(|known| Arc::ptr_eq(known, ring)) {
            open.keep(id, &known);
        }
        Ok(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmcp_engine::access::identity::Identity;
    use vmcp_wire::era::Revision;

    fn session() -> Session {
        Session {
            id: [0; 16],
            identity: [0; 32],
            revision: Revision::LATEST_LEGACY,
            began: 0,
            expires: 0,
            client_info: "{}".into(),
            client_capabilities: "{}".into(),
        }
    }

    #[test]
    fn a_session_is_what_its_id_holds() {
        let ring = Arc::new(KeyRing::from_secrets([b"a secret of enough bytes"]).unwrap());
        let sessions = Sessions::default();
        let (first, id) = begin(&ring, session()).unwrap();
        let (_, other) = begin(&ring, session()).unwrap();
        for _ in 0..2 {
            assert_eq!(sessions.get(&ring, &Principal::default(), &id).unwrap().session, first);
        }
        assert!(sessions.get(&ring, &Principal::default(), &other).is_ok());
        assert!(matches!(
            sessions.get(&ring, &Principal::default(), "made-up"),
            Err(SessionNotFound::Unknown(_))
        ));
        let others = Arc::new(KeyRing::from_secrets([b"another secret, as long"]).unwrap());
        assert!(
            matches!(sessions.get(&others, &Principal::default(), &other), Err(SessionNotFound::Unknown(_))),
            "a cached session does not outlive its key"
        );
        assert!(sessions.get(&ring, &Principal::default(), &other).is_ok());
    }

    #[test]
    fn long_introductions_take_no_more_than_their_room() {
        let mut open = OpenedSessions::default();
        let known = Arc::new(OpenedSession::from(Session { client_info: "x".repeat(3000), ..session() }));
        for number in 0..MAX_OPENED {
            open.keep(&number.to_string(), &known);
            open.keep(&number.to_string(), &known);
            assert!(open.bytes <= MAX_OPENED_BYTES);
        }
        let each = |id: &str| id.len() + 2 * (3000 + "{}".len());
        assert_eq!(open.sessions.keys().map(|id| each(id)).sum::<usize>(), open.bytes);
        assert!(open.sessions.len() < MAX_OPENED_BYTES / 6000);
    }

    #[test]
    fn a_session_is_of_use_to_its_principal_alone() {
        let ring = Arc::new(KeyRing::from_secrets([b"a secret of enough bytes"]).unwrap());
        let identity = |subject| Identity::known("https://idp", subject, serde_json::Map::new(), None);
        let (sessions, alice) = (Sessions::default(), Principal::from(identity("alice")));
        let (_, id) = begin(&ring, Session { identity: alice.binding(), ..session() }).unwrap();
        let under_profile = Principal { profile: Some("work".into()), ..alice.clone() };
        for _ in 0..2 {
            assert!(sessions.get(&ring, &alice, &id).is_ok());
            for other in [identity("mallory").into(), Principal::default(), under_profile.clone()] {
                let refused = sessions.get(&ring, &other, &id);
                assert_eq!(refused.unwrap_err(), SessionNotFound::OfAnotherIdentity);
            }
        }
    }
}
