//! [`SessionChanges`]: the client sessions on whose own connections the server announced that a list changed.

use std::collections::HashSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::request::SessionId;

/// Sessions whose definitions are to be listed again; each waits once, however often its server announces.
#[derive(Debug, Default)]
pub(crate) struct SessionChanges {
    waiting: Mutex<HashSet<SessionId>>,
    added: Notify,
}

impl SessionChanges {
    /// Adds a session.
    pub(crate) fn add(&self, session: SessionId) {
        self.waiting.lock().insert(session);
        self.added.notify_one();
    }

    /// Takes all sessions that wait, once there is one.
    pub(crate) async fn take(&self) -> HashSet<SessionId> {
        loop {
            let waiting = std::mem::take(&mut *self.waiting.lock());
            if !waiting.is_empty() {
                return waiting;
            }
            self.added.notified().await;
        }
    }
}
