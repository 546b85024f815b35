//! [`Session`]: the content of a legacy session's id. The id is a sealed token with everything that a replica
//! needs to go on with a session that another replica opened.

use crate::message::era::Revision;
use crate::sealed::{KeyRing, Nonce, OpenError, Opened};

/// The most bytes that client info and capabilities may have together; a client with more is refused. The id
/// travels in a header of every request, and 8 KiB is a common limit for all headers together.
pub const MAX_TEXT: usize = 3 * 1024;

const CONTEXT: &[u8] = b"session";
const VERSION: u8 = 1;

/// A legacy session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// A random number that tells sessions apart.
    pub id: [u8; 16],
    /// Digest of the identity that opened the session; no other may use it.
    pub identity: [u8; 32],
    /// The negotiated revision.
    pub revision: Revision,
    /// The time of opening, in milliseconds since the Unix epoch.
    pub began: u64,
    /// The expiry, in seconds since the Unix epoch.
    pub expires: u64,
    /// The client's `Implementation`, as JSON.
    pub client_info: String,
    /// The client's `ClientCapabilities`, as JSON.
    pub client_capabilities: String,
}

/// The reason why a session cannot be opened or continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// Client info and capabilities are larger than [`MAX_TEXT`].
    #[error("`clientInfo` and `capabilities` have {length} bytes together; the limit is {MAX_TEXT}")]
    TooLarge {
        /// Their bytes.
        length: usize,
    },
    /// The id is not a valid token.
    #[error(transparent)]
    Token(#[from] OpenError),
    /// The token is genuine, but of a form that this version does not read.
    #[error("the session was opened by another version of this server")]
    Content,
    /// The session belongs to another identity.
    #[error("the session belongs to another identity")]
    Identity,
}

impl Session {
    /// Seals the session into its id, for `Mcp-Session-Id`. `nonce` must be fresh and random.
    pub fn seal(&self, ring: &KeyRing, nonce: &Nonce) -> Result<String, SessionError> {
        let length = self.client_info.len() + self.client_capabilities.len();
        if length > MAX_TEXT {
            return Err(SessionError::TooLarge { length });
        }
        Ok(ring.seal(nonce, &self.encode(), CONTEXT, self.expires))
    }

    /// Opens a session's id for the identity that presents it. `now` is in seconds since the Unix epoch.
    pub fn open(ring: &KeyRing, id: &str, identity: &[u8; 32], now: u64) -> Result<Self, SessionError> {
        let session = Self::decode(&ring.open(id, CONTEXT, now)?).ok_or(SessionError::Content)?;
        if session.identity == *identity { Ok(session) } else { Err(SessionError::Identity) }
    }

    /// Writes `version ‖ revision ‖ id ‖ identity ‖ began ‖ length of client_info ‖ client_info ‖
    /// client_capabilities`
    fn encode(&self) -> Vec<u8> {
        let Self { id, identity, revision, began, expires: _, client_info, client_capabilities } = self;
        let mut out = vec![VERSION, revision_tag(*revision)];
        out.extend_from_slice(id);
        out.extend_from_slice(identity);
        out.extend_from_slice(&began.to_be_bytes());
        out.extend_from_slice(&(client_info.len() as u16).to_be_bytes());
        out.extend_from_slice(client_info.as_bytes());
        out.extend_from_slice(client_capabilities.as_bytes());
        out
    }

    fn decode(opened: &Opened) -> Option<Self> {
        let ([version, revision], rest) = opened.content.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk()?;
        let (identity, rest) = rest.split_first_chunk()?;
        let (began, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (client_info, client_capabilities) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        (*version == VERSION).then_some(Self {
            id: *id,
            identity: *identity,
            revision: Revision::ALL.into_iter().find(|candidate| revision_tag(*candidate) == *revision)?,
            began: u64::from_be_bytes(*began),
            expires: opened.expires,
            client_info: text(client_info)?,
            client_capabilities: text(client_capabilities)?,
        })
    }
}

/// Returns the byte that stands for a revision. Never reuse a value: clients hold old ids.
fn revision_tag(revision: Revision) -> u8 {
    match revision {
        Revision::V2024_11_05 => 1,
        Revision::V2025_03_26 => 2,
        Revision::V2025_06_18 => 3,
        Revision::V2025_11_25 => 4,
        Revision::V2026_07_28 => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        Session {
            id: [1; 16],
            identity: [2; 32],
            revision: Revision::V2025_06_18,
            began: 1_000,
            expires: 2_000,
            client_info: r#"{"name":"größe","version":"1"}"#.into(),
            client_capabilities: r#"{"elicitation":{}}"#.into(),
        }
    }

    #[test]
    fn another_replica_goes_on_and_another_identity_does_not() {
        let ring = KeyRing::from_secrets([b"a secret of enough bytes"]).unwrap();
        let id = session().seal(&ring, &[3; 24]).unwrap();
        assert!(id.len() < 256 && id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
        assert_eq!(Session::open(&ring, &id, &[2; 32], 1_999), Ok(session()));
        assert_eq!(Session::open(&ring, &id, &[9; 32], 1_999), Err(SessionError::Identity));
        let expired = Err(SessionError::Token(OpenError::Expired { at: 2_000 }));
        assert_eq!(Session::open(&ring, &id, &[2; 32], 2_000), expired);
        let other_purpose = ring.seal(&[3; 24], &session().encode(), b"request state", 2_000);
        assert_eq!(
            Session::open(&ring, &other_purpose, &[2; 32], 0),
            Err(SessionError::Token(OpenError::Forged))
        );
        let garbage = ring.seal(&[3; 24], b"\x01\x03short", CONTEXT, 2_000);
        assert_eq!(Session::open(&ring, &garbage, &[2; 32], 0), Err(SessionError::Content));
    }

    #[test]
    fn a_session_id_fits_a_header() {
        let ring = KeyRing::from_secrets([b"a secret of enough bytes"]).unwrap();
        let session =
            Session { client_info: "x".repeat(MAX_TEXT), client_capabilities: String::new(), ..session() };
        assert!(session.seal(&ring, &[3; 24]).unwrap().len() < 8 * 1024 * 3 / 4);
        let larger = Session { client_capabilities: "x".into(), ..session };
        assert_eq!(larger.seal(&ring, &[3; 24]), Err(SessionError::TooLarge { length: MAX_TEXT + 1 }));
    }
}
