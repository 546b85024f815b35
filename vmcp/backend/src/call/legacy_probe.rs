//! Asks a server of both eras once what it offers to legacy clients: its discovery may name less. The first
//! legacy client is answered with it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use vmcp_wire::era::Era;
use vmcp_wire::methods;
use vmcp_wire::owned::OwnedParams;

use crate::call;
use crate::connection::Connection;
use crate::inbound::call_listener::CallListener;
use crate::request::{OWN_SESSION, Request};
use crate::sharing::core::BackendCore;

/// Time for the server to open a session of the legacy era.
const DEADLINE: Duration = Duration::from_secs(5);

/// Returns the connection of a server that may offer more to legacy clients and was not asked yet. Programs
/// are not asked: each question would start a process.
fn unasked(shared: &BackendCore) -> Option<Arc<Connection>> {
    let connection = shared.current.load_full()?;
    let is_known =
        shared.discovered.borrow().as_ref().is_none_or(|found| found.legacy_capabilities.is_some());
    let may_ask = !shared.facts.spec.starts_process()
        && connection.server.era() == Era::Modern
        && !is_known
        && !connection.legacy_asked.load(Ordering::Relaxed);
    may_ask.then_some(connection)
}

/// True if [`learn`] has something to learn.
pub(crate) fn is_due(shared: &BackendCore) -> bool {
    unasked(shared).is_some()
}

/// Opens a session of vmcp's own in the legacy era, whose capabilities are remembered and published, and ends
/// it. Returns when they are published, or the server is of the modern era only.
pub(crate) async fn learn(shared: &Arc<BackendCore>) {
    let Some(connection) = unasked(shared) else { return };
    let nothing = OwnedParams::empty();
    let request = Request {
        idempotent: true,
        hasty: true,
        deadline: DEADLINE,
        session: Some(OWN_SESSION),
        ..Request::new(methods::PING, &nothing)
    };
    if shared.sessions.owns(&connection, &request) {
        let ours = Arc::new(CallListener { ours: true, ..CallListener::default() });
        if let Err(error) = call::send(shared, &request, &ours).await {
            tracing::debug!(%error, "the server did not say what it offers to legacy clients");
        }
    }
    connection.legacy_asked.store(true, Ordering::Relaxed);
    if shared.facts.legacy_capabilities().is_some() {
        let mut discovered = shared.discovered.subscribe();
        let has_them = |found: &Option<Arc<_>>| is_published(found.as_deref());
        let _ = discovered.wait_for(has_them).await;
    }
    if !shared.sessions.has_subscriptions(OWN_SESSION) {
        shared.sessions.end(OWN_SESSION);
    }
}

fn is_published(found: Option<&vmcp_model::discovered::Discovered>) -> bool {
    found.is_some_and(|found| found.legacy_capabilities.is_some())
}
