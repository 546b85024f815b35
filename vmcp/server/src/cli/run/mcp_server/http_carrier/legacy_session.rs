//! [`LegacySession`]: the session of a client before 2026-07-28, whose id and revision go with each message.

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use serde_json::Value;
use vmcp_wire::headers;

const SESSION: HeaderName = HeaderName::from_static(headers::SESSION_ID);
const REVISION: HeaderName = HeaderName::from_static(headers::PROTOCOL_VERSION);

/// Headers of a session, from the answer to `initialize` on.
#[derive(Debug, Default)]
pub(super) struct LegacySession(Mutex<HeaderMap>);

impl LegacySession {
    /// Begins the session that an answer to `initialize` opens.
    pub(super) fn begin(&self, head: &HeaderMap, result: &str) {
        let mut session = HeaderMap::new();
        if let Some(id) = head.get(SESSION) {
            session.insert(SESSION, id.clone());
        }
        let result: Value = serde_json::from_str(result).unwrap_or_default();
        let revision = result.get("protocolVersion").and_then(Value::as_str);
        if let Some(revision) = revision.and_then(|revision| HeaderValue::from_str(revision).ok()) {
            session.insert(REVISION, revision);
        }
        *self.0.lock() = session;
    }

    /// Returns the headers; none before `initialize` is answered.
    pub(super) fn headers(&self) -> HeaderMap {
        self.0.lock().clone()
    }

    /// True once the server has given the session an id.
    pub(super) fn has_id(&self) -> bool {
        self.0.lock().contains_key(SESSION)
    }
}
