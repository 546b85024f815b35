//! Room in the pool: the limits on sessions, and the eviction of idle ones.

use std::collections::HashMap;
use std::sync::Arc;

use vmcp_config::Transport;

use super::SessionPool;
use crate::request::Principal;
use crate::sharing::lease::SessionLease;
use crate::sharing::placement::{OwnerKey, Placement};
use crate::sharing::session::UpstreamSession;
use crate::transport::LinkError;

/// Sessions of processes, unless the backend's configuration says otherwise. A process holds tens of MiB.
const MAX_PROCESSES: usize = 64;
/// Sessions of event streams; each holds a socket.
const MAX_EVENT_STREAMS: usize = 1000;

impl SessionPool {
    /// Leases the session of a placement, which gets a place in the pool if it has none.
    pub(super) fn take(self: &Arc<Self>, placement: Placement) -> Result<SessionLease, LinkError> {
        let mut sessions = self.sessions.lock();
        if let Some(session) = sessions.get(&placement.key) {
            return Ok(SessionLease::new(Arc::clone(session)));
        }
        let evicted = self.make_room(&mut sessions, placement.principal)?;
        let session = Arc::new(UpstreamSession::new(placement));
        sessions.insert(placement.key, Arc::clone(&session));
        let mut lease = SessionLease::new(session);
        drop(sessions);
        if let Some(evicted) = evicted {
            self.drop_listing(&evicted);
        }
        self.start_reaper();
        if matches!(placement.key, OwnerKey::Call(_)) {
            lease.ends_in(Arc::clone(self));
        }
        Ok(lease)
    }

    /// Evicts the session that was idle for longest, if there is no room for another of `principal`; returns
    /// it.
    fn make_room(
        &self,
        sessions: &mut HashMap<OwnerKey, Arc<UpstreamSession>>,
        principal: Principal,
    ) -> Result<Option<Arc<UpstreamSession>>, LinkError> {
        let limit = self.limit();
        let of = |session: &UpstreamSession| session.placement.principal == principal;
        let is_full = sessions.len() >= limit;
        // The only client of a process has all of it; the clients of a bridge come through one vmcp.
        let is_only = principal == Principal::Anonymous || self.facts.settings().in_our_place;
        let share = if is_only { limit } else { limit.div_ceil(2) };
        let is_over =
            sessions.len() >= share && sessions.values().filter(|session| of(session)).count() >= share;
        if !is_full && !is_over {
            return Ok(None);
        }
        let candidates = sessions.iter().filter(|(_, session)| !is_over || of(session));
        let idle = candidates.filter_map(|(key, session)| Some((session.idle_since()?, *key)));
        let Some((_, oldest)) = idle.min_by_key(|(since, _)| *since) else {
            let count = if is_over { share } else { limit };
            let reason = format!("all {count} sessions at the backend are in use; try again later");
            return Err(LinkError::Unsendable(reason));
        };
        let evicted = sessions.remove(&oldest);
        if let Some(evicted) = &evicted {
            evicted.end();
        }
        Ok(evicted)
    }

    /// Returns the number of sessions that the backend may have.
    pub(super) fn limit(&self) -> usize {
        let (spec, settings) = (&self.facts.spec, self.facts.settings());
        let by_transport = match spec.transport {
            Transport::Http { .. } => settings.max_sessions,
            Transport::Sse { .. } | Transport::WebSocket { .. } => {
                settings.max_sessions.min(MAX_EVENT_STREAMS)
            }
            Transport::Stdio { .. } => settings.max_sessions.min(MAX_PROCESSES),
        };
        spec.max_sessions.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(by_transport).max(1)
    }
}
