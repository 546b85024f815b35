//! The refresher: a task that lists a backend's definitions on every connection, on `list_changed`, on demand
//! and on a timer. A listing that fails keeps the last good definitions.

use std::sync::{Arc, Weak};
use std::time::SystemTime;

use tokio::time::{sleep, timeout};
use vmcp_model::discovered::Discovered;

use crate::connection::Connection;
use crate::sharing::core::BackendCore;
use crate::transport::LinkError;
use crate::upkeep::listing;

/// Runs until the backend is stopped.
pub(crate) async fn run(shared: Arc<BackendCore>) {
    let stop = shared.facts.stop.clone();
    let _ = stop.run_until_cancelled(keep_fresh(&shared)).await;
}

async fn keep_fresh(shared: &BackendCore) {
    let mut listed: Weak<Connection> = Weak::new();
    loop {
        // The timer does not connect a backend that no call has needed.
        let _ = timeout(shared.facts.settings.refresh_interval, shared.facts.changed.notified()).await;
        let Some(connection) = shared.current.load_full() else { continue };
        // The first listing of a connection is awaited, so it starts at once; later changes come in bursts
        // and are debounced.
        if std::ptr::eq(listed.as_ptr(), Arc::as_ptr(&connection)) {
            sleep(shared.facts.settings.refresh_debounce).await;
        }
        listed = Arc::downgrade(&connection);
        let previous = shared.discovered.borrow().clone();
        let listing = listing::everything(&connection, previous.as_deref());
        let result = timeout(shared.facts.settings.list_timeout, listing).await;
        match result.unwrap_or(Err(LinkError::Protocol("listing timed out".to_owned()))) {
            Ok(found) => publish(shared, previous.as_deref(), found),
            Err(error) if connection.channel.link.ends_with(&error) => shared.discard(&connection, &error),
            Err(error) => {
                tracing::warn!(error = error.detail(), "listing failed, the last definitions stay");
                shared.remember_error(format!("listing failed: {}", error.detail()));
            }
        }
    }
}

fn publish(shared: &BackendCore, previous: Option<&Discovered>, found: Discovered) {
    {
        let mut live = shared.live.lock();
        live.last_refresh = Some(SystemTime::now());
        live.last_error = None;
    }
    // Definitions are read from this text: equal texts are equal definitions.
    if previous.map(Discovered::to_json) != Some(found.to_json()) {
        shared.discovered.send_replace(Some(Arc::new(found)));
    }
}
