//! Legacy sessions. All that a session is travels sealed in its id, so that any process with the key can go on with it;
//! kept here are the ids that clients have ended, and those last opened, so that a session is unsealed once and not with each
//! request.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use vmcp_backend::{ClientFacts, SessionId};
use vmcp_json::object::Object;
use vmcp_wire::sealed::KeyRing;
use vmcp_wire::sealed::{session::Session, session::SessionError};

use super::random::{now, random};
use crate::identity::Identity;

/// How long a session lives, in seconds. A client whose session has ended opens another without its user noticing.
const LIFETIME_SECS: u64 = 24 * 60 * 60;
/// Ended sessions that are remembered; beyond it those that expire first are forgotten first.
const MAX_ENDED: usize = 100_000;
/// Sessions that are kept open; beyond it all of them are opened anew. Each takes about a kilobyte.
const MAX_OPENED: usize = 10_000;

/// Sessions that were ended, and sessions in use.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    ended: Mutex<HashMap<SessionId, u64>>,
    open: Mutex<OpenedSessions>,
}

/// Sessions by their ids, and what they were opened with: other keys may not open them.
#[derive(Debug, Default)]
struct OpenedSessions {
    ring: Option<Arc<KeyRing>>,
    sessions: HashMap<Box<str>, Arc<OpenedSession>>,
}

/// A session and what is read from it once.
#[derive(Debug, Clone)]
pub(crate) struct OpenedSession {
    pub(crate) session: Session,
    /// What backends are told about its client.
    pub(crate) client: ClientFacts,
    /// The client's name.
    pub(crate) name: Option<Box<str>>,
}

impl From<Session> for OpenedSession {
    fn from(session: Session) -> Self {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).ok().map(Arc::from);
        let client = ClientFacts {
            info: raw(&session.client_info),
            capabilities: raw(&session.client_capabilities),
            log_level: None,
        };
        let info = client.info.as_deref().and_then(|info| Object::parse(info).ok());
        let name = info.and_then(|info| info.get_str("name")).map(Box::from);
        Self { session, client, name }
    }
}

/// Why a session id is not served; answered with 404, which makes the client open a new session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SessionNotFound {
    #[error("session not found: {0}")]
    Unknown(#[from] SessionError),
    #[error("session not found: it was ended")]
    Ended,
}

/// Completes a session that begins now and seals it; the id goes into `Mcp-Session-Id`.
pub(crate) fn begin(ring: &KeyRing, mut session: Session) -> Result<(Session, String), SessionError> {
    let now = now();
    session.id = random();
    session.identity = Identity::Anonymous.digest();
    session.issued = now;
    session.expires = now.saturating_add(LIFETIME_SECS);
    let id = session.seal(ring, &random())?;
    Ok((session, id))
}

impl Sessions {
    /// The session with this id.
    pub(crate) fn get(&self, ring: &Arc<KeyRing>, id: &str) -> Result<Arc<OpenedSession>, SessionNotFound> {
        let known = match self.cached(ring, id) {
            Some(known) => known,
            None => self.unseal(ring, id)?,
        };
        if self.has_ended(known.session.id) { Err(SessionNotFound::Ended) } else { Ok(known) }
    }

    fn cached(&self, ring: &Arc<KeyRing>, id: &str) -> Option<Arc<OpenedSession>> {
        let mut open = self.open.lock();
        if !open.ring.as_ref().is_some_and(|known| Arc::ptr_eq(known, ring)) {
            *open = OpenedSessions { ring: Some(Arc::clone(ring)), ..OpenedSessions::default() };
        }
        open.sessions.get(id).filter(|known| known.session.expires > now()).cloned()
    }

    fn unseal(&self, ring: &Arc<KeyRing>, id: &str) -> Result<Arc<OpenedSession>, SessionNotFound> {
        let session = Session::open(ring, id, &Identity::Anonymous.digest(), now())?;
        let known = Arc::new(OpenedSession::from(session));
        let mut open = self.open.lock();
        if open.sessions.len() >= MAX_OPENED {
            open.sessions.clear();
        }
        // Unless the keys have changed meanwhile.
        if open.ring.as_ref().is_some_and(|known| Arc::ptr_eq(known, ring)) {
            open.sessions.insert(id.into(), Arc::clone(&known));
        }
        Ok(known)
    }

    /// Whether a session was ended here.
    pub(crate) fn has_ended(&self, session: SessionId) -> bool {
        self.lock().contains_key(&session)
    }

    /// Ends a session here; other processes go on accepting it until it expires.
    pub(crate) fn end(&self, session: &Session) {
        let mut ended = self.lock();
        if ended.len() >= MAX_ENDED {
            let now = now();
            ended.retain(|_, expires| *expires > now);
            if ended.len() >= MAX_ENDED
                && let Some(first) = ended.iter().min_by_key(|(_, expires)| **expires).map(|(id, _)| *id)
            {
                ended.remove(&first);
            }
        }
        ended.insert(session.id, session.expires);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, u64>> {
        self.ended.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmcp_wire::era::Revision;

    fn session() -> Session {
        Session {
            id: [0; 16],
            identity: [0; 32],
            revision: Revision::LATEST_LEGACY,
            issued: 0,
            expires: 0,
            client_info: "{}".into(),
            client_capabilities: "{}".into(),
        }
    }

    #[test]
    fn an_ended_session_is_gone_and_the_others_are_not() {
        let ring = Arc::new(KeyRing::from_secrets([b"a secret of enough bytes"]).unwrap());
        let sessions = Sessions::default();
        let (first, id) = begin(&ring, session()).unwrap();
        let (_, other) = begin(&ring, session()).unwrap();
        for _ in 0..2 {
            assert_eq!(sessions.get(&ring, &id).unwrap().session, first);
        }
        sessions.end(&first);
        assert!(matches!(sessions.get(&ring, &id), Err(SessionNotFound::Ended)));
        assert!(sessions.get(&ring, &other).is_ok());
        assert!(matches!(sessions.get(&ring, "made-up"), Err(SessionNotFound::Unknown(_))));
        let others = Arc::new(KeyRing::from_secrets([b"another secret, as long"]).unwrap());
        assert!(
            matches!(sessions.get(&others, &other), Err(SessionNotFound::Unknown(_))),
            "known is not enough"
        );
        assert!(sessions.get(&ring, &other).is_ok());
    }
}
