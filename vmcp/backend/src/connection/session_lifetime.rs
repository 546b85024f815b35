//! [`SessionLifetime`]: reports the end of an upstream session.

use std::sync::Arc;
use std::time::Instant;

use vmcp_wire::era::{Era, Revision};

use crate::policy::facts::Facts;
use crate::request::{ConnectionObserver, EndedSession, ServerNetwork};

/// Part of a connection of the legacy era; dropped with it.
#[derive(Debug)]
pub(super) struct SessionLifetime {
    observer: Arc<dyn ConnectionObserver>,
    backend: Arc<str>,
    network: Arc<ServerNetwork>,
    revision: Revision,
    began: Instant,
}

impl SessionLifetime {
    /// Begins now; `None` for a modern server, which has no sessions.
    pub(super) fn begin(facts: &Facts, revision: Revision) -> Option<Self> {
        (revision.era() == Era::Legacy).then(|| Self {
            observer: Arc::clone(&facts.settings().connection_observer),
            backend: Arc::clone(&facts.spec.name),
            network: Arc::clone(&facts.network),
            revision,
            began: Instant::now(),
        })
    }
}

impl Drop for SessionLifetime {
    fn drop(&mut self) {
        self.observer.session_ended(&EndedSession {
            backend: &self.backend,
            network: &self.network,
            revision: self.revision.as_str(),
            lived: self.began.elapsed(),
        });
    }
}
