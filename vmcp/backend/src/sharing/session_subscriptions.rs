//! Subscriptions that client sessions hold on connections of their own: what changes by a client's calls in
//! its own session is announced there only.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;
use serde_json::value::RawValue;
use vmcp_json::text;
use vmcp_wire::{methods, rpc};

use crate::request::SessionId;

/// Subscribed URIs by session, so that a connection that is opened again is subscribed to again. Callers
/// bound the number of subscriptions.
#[derive(Debug, Default)]
pub(crate) struct SessionSubscriptions(Mutex<HashMap<SessionId, BTreeSet<Box<str>>>>);

impl SessionSubscriptions {
    pub(crate) fn add(&self, session: SessionId, uri: &str) {
        self.0.lock().entry(session).or_default().insert(uri.into());
    }

    /// Removes a subscription; returns true if there was one.
    pub(crate) fn remove(&self, session: SessionId, uri: &str) -> bool {
        let mut all = self.0.lock();
        let Some(uris) = all.get_mut(&session) else { return false };
        let removed = uris.remove(uri);
        if uris.is_empty() {
            all.remove(&session);
        }
        removed
    }

    /// Removes all subscriptions of a session that has ended.
    pub(crate) fn end(&self, session: SessionId) {
        self.0.lock().remove(&session);
    }

    pub(crate) fn of(&self, session: SessionId) -> Vec<Box<str>> {
        self.0.lock().get(&session).into_iter().flatten().cloned().collect()
    }

    /// True if the session has a subscription.
    pub(crate) fn has(&self, session: SessionId) -> bool {
        self.0.lock().contains_key(&session)
    }
}

/// The parameters that name a resource.
pub(crate) fn named(uri: &str) -> String {
    format!(r#"{{"uri":{}}}"#, text::quoted(uri))
}

/// The `notifications/resources/updated` that vmcp sends by itself.
pub(crate) fn updated(uri: &str) -> Option<Box<RawValue>> {
    let message = rpc::notification(methods::RESOURCE_UPDATED, Some(named(uri).into()));
    serde_json::from_slice(&message).ok()
}
