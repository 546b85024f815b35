//! The session refresher: a task that lists definitions over a client's own connection when the server
//! announces a change there, and keeps them for the session while they differ from the backend's own.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing::Instrument as _;

use crate::connection::Connection;
use crate::request::SessionId;
use crate::sharing::core::BackendCore;
use crate::sharing::session::UpstreamSession;
use crate::upkeep::listing::ListingRound;

/// Times that the debounce of a session is longer than that of the backend: a change in all sessions is on
/// the backend's own listing first, and leaves none of a session's.
const DEBOUNCE_FACTOR: u32 = 2;
/// Sessions that are listed side by side: a server may announce a change to thousands of them at once.
const MAX_CONCURRENT_LISTINGS: usize = 8;

/// Runs until the backend is stopped.
pub(crate) async fn run(core: Arc<BackendCore>) {
    let stop = core.facts.stop.clone();
    let _ = stop.run_until_cancelled(follow(&core)).await;
}

async fn follow(core: &Arc<BackendCore>) {
    let mut shared = core.discovered.subscribe();
    let slots = Arc::new(Semaphore::new(MAX_CONCURRENT_LISTINGS));
    loop {
        let announced = tokio::select! {
            announced = core.facts.session_changes.take() => announced,
            changed = shared.changed() => match changed {
                // A listing that differs from the one before may not differ from this one.
                Ok(()) => core.sessions.listings.sessions().into_iter().collect(),
                Err(_) => return,
            },
        };
        for session in announced {
            // One relisting under way and one waiting see everything that was announced before.
            if let Some(upstream) = core.sessions.of_client(session).filter(|own| own.relisting.queue()) {
                let (core, slots) = (Arc::clone(core), Arc::clone(&slots));
                tokio::spawn(
                    async move { relist(&core, session, &upstream, &slots).await }.in_current_span(),
                );
            }
        }
    }
}

async fn relist(core: &BackendCore, session: SessionId, upstream: &UpstreamSession, slots: &Semaphore) {
    let mut schedule = upstream.relisting.schedule.lock().await;
    let settings = core.facts.settings();
    sleep(schedule.debounce(settings.refresh_debounce * DEBOUNCE_FACTOR, Instant::now())).await;
    // Nothing closes the semaphore.
    let _slot = slots.acquire().await.ok();
    upstream.relisting.begin();
    let Some(connection) = upstream.live() else { return };
    let result = timeout(settings.list_timeout, list(core, &connection, session, upstream)).await;
    schedule.record(result.is_ok(), Instant::now());
}

async fn list(core: &BackendCore, connection: &Connection, session: SessionId, upstream: &UpstreamSession) {
    let shared = core.discovered.borrow().clone().unwrap_or_default();
    // Limited by the caller as a whole.
    let round =
        ListingRound::new(connection, Some(&shared), core.facts.settings().list_timeout, &core.list_crashes);
    let read = async {
        round.tools().await?;
        round.others().await
    };
    if let Err(error) = read.await {
        tracing::debug!(error = error.detail(), "a client's own connection was not listed");
        return;
    }
    // Another list that fails is that of the backend.
    let (None, Some(listed)) = (round.failures().0, round.discovered()) else {
        tracing::debug!("the tools of a client's own connection were not listed");
        return;
    };
    // The newest: it may have changed while this connection was listed.
    let shared = core.discovered.borrow().clone().unwrap_or_default();
    let principal = upstream.placement.principal;
    match core.sessions.listings.put(session, principal, listed, &shared) {
        // The connection may have ended meanwhile, and its listing been removed before it was put.
        Ok(_) if upstream.is_ended() => _ = core.sessions.listings.remove(session),
        Ok(changed) => core.sessions.announce(session, changed),
        Err(refusal) => {
            tracing::warn!(%refusal, "a session's own definitions are not shown to its client");
            core.sessions.announce(session, core.sessions.listings.remove(session));
        }
    }
}
