//! Subscriptions that client sessions have on connections of their own.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;
use vmcp_wire::methods;
use vmcp_wire::owned::OwnedParams;

use super::SessionPool;
use crate::connection::Connection;
use crate::request::{Event, OWN_SESSION, Request, RpcOutcome, SessionId};
use crate::sharing::session_subscriptions;

/// Time for a server to renew one subscription.
const RESUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);

impl SessionPool {
    /// Records that a session has subscribed on its own connection, and listens there.
    pub(crate) fn subscribed(&self, session: SessionId, uri: &str) {
        self.subscriptions.add(session, uri);
        if let Some(session) = self.of_client(session) {
            self.follow(&session);
        }
    }

    /// True if the session has subscribed to the resource on its own connection.
    pub(crate) fn has_subscription(&self, session: SessionId, uri: &str) -> bool {
        self.subscriptions.of(session).iter().any(|own| **own == *uri)
    }

    /// True if the session has subscribed to anything on its own connection.
    pub(crate) fn has_subscriptions(&self, session: SessionId) -> bool {
        self.subscriptions.has(session)
    }

    /// Takes a subscription back, which the server is told in the background; false if the session has none.
    pub(crate) fn unsubscribe(&self, session: SessionId, uri: &str) -> bool {
        let removed = self.subscriptions.remove(session, uri);
        let params = OwnedParams::from_text(session_subscriptions::named(uri)).ok();
        if let (true, Some(params), Some(connection), Ok(runtime)) =
            (removed, params, self.live_of_client(session), Handle::try_current())
        {
            runtime.spawn(async move {
                let _ = connection.ask(&Request::new(methods::UNSUBSCRIBE, &params)).await;
            });
        }
        removed
    }

    /// Subscribes again on a connection that was opened again, and tells the client to look again.
    pub(super) async fn resubscribe(&self, connection: &Connection, session: SessionId) {
        for uri in self.subscriptions.of(session) {
            let Ok(params) = OwnedParams::from_text(session_subscriptions::named(&uri)) else { continue };
            let request = Request::new(methods::SUBSCRIBE, &params);
            let asked = timeout(RESUBSCRIBE_TIMEOUT, connection.ask(&request)).await;
            if !matches!(asked, Ok(Ok(RpcOutcome::Result(_)))) {
                tracing::info!("a subscription of a client's session could not be renewed");
            }
            if let Some(message) = session_subscriptions::updated(&uri) {
                let settings = self.facts.settings();
                settings.downstream.deliver(
                    &self.facts.spec.name,
                    Some(session).filter(|session| *session != OWN_SESSION),
                    Event::Notification(message),
                );
            }
        }
    }
}
