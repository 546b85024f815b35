//! Legacy sessions. All that a session is travels sealed in its id, so that any process with the key can go on with it;
//! kept here are only the ids that clients have ended.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use vmcp_wire::sealed::KeyRing;
use vmcp_wire::session::{Session, SessionError};

use super::random::{now, random};
use crate::identity::Identity;

/// How long a session lives, in seconds. A client whose session has ended opens another without its user noticing.
const LIFETIME: u64 = 24 * 60 * 60;
/// Ended sessions that are remembered; beyond it those that expire first are forgotten first.
const MOST_ENDED: usize = 100_000;
/// Sessions that were ended.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    ended: Mutex<HashMap<[u8; 16], u64>>,
}

/// Why a session id is not served; answered with 404, which makes the client open a new session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoSession {
    #[error("session not found: {0}")]
    Unknown(#[from] SessionError),
    #[error("session not found: it was ended")]
    Ended,
}

/// Completes a session that begins now and seals it; the id goes into `Mcp-Session-Id`.
pub(super) fn open(ring: &KeyRing, mut session: Session) -> Result<(Session, String), SessionError> {
    let now = now();
    session.id = random();
    session.identity = Identity::Anonymous.digest();
    session.issued = now;
    session.expires = now.saturating_add(LIFETIME);
    let id = session.seal(ring, &random())?;
    Ok((session, id))
}

impl Sessions {
    /// The session with this id.
    pub(super) fn get(&self, ring: &KeyRing, id: &str) -> Result<Session, NoSession> {
        let session = Session::open(ring, id, &Identity::Anonymous.digest(), now())?;
        if self.lock().contains_key(&session.id) { Err(NoSession::Ended) } else { Ok(session) }
    }

    /// Ends a session here; other processes go on accepting it until it expires.
    pub(super) fn end(&self, session: &Session) {
        let mut ended = self.lock();
        if ended.len() >= MOST_ENDED {
            let now = now();
            ended.retain(|_, expires| *expires > now);
            if ended.len() >= MOST_ENDED
                && let Some(first) = ended.iter().min_by_key(|(_, expires)| **expires).map(|(id, _)| *id)
            {
                ended.remove(&first);
            }
        }
        ended.insert(session.id, session.expires);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 16], u64>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
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
        let ring = KeyRing::from_secrets([b"a secret of enough bytes"]).unwrap();
        let sessions = Sessions::default();
        let (first, id) = open(&ring, session()).unwrap();
        let (_, other) = open(&ring, session()).unwrap();
        assert_eq!(sessions.get(&ring, &id), Ok(first.clone()));
        sessions.end(&first);
        assert_eq!(sessions.get(&ring, &id), Err(NoSession::Ended));
        assert!(sessions.get(&ring, &other).is_ok());
        assert!(matches!(sessions.get(&ring, "made-up"), Err(NoSession::Unknown(_))));
    }
}
