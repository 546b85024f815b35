//! The task that keeps the definitions fresh: on every connection, on `list_changed`, on demand and on a timer
//! (R022-43). A listing that fails keeps the last good definitions.

use std::sync::{Arc, Weak};
use std::time::SystemTime;

use tokio::time::{sleep, timeout};
use vmcp_model::discovered::Discovered;

use crate::connection::Connection;
use crate::error::LinkError;
use crate::list;
use crate::lock::lock;
use crate::shared::Shared;

/// Runs until the backend is stopped.
pub(crate) async fn run(shared: Arc<Shared>) {
    let stop = shared.stop.clone();
    let _ = stop.run_until_cancelled(keep_fresh(&shared)).await;
}

async fn keep_fresh(shared: &Shared) {
    let mut listed: Weak<Connection> = Weak::new();
    loop {
        // The timer does not wake a backend that nobody has needed.
        let _ = timeout(shared.settings.refresh_interval, shared.changed.notified()).await;
        let Some(connection) = shared.current.load_full() else { continue };
        // The first listing of a connection is awaited by somebody; changes come in bursts.
        if std::ptr::eq(listed.as_ptr(), Arc::as_ptr(&connection)) {
            sleep(shared.settings.refresh_debounce).await;
        }
        listed = Arc::downgrade(&connection);
        let previous = shared.discovered.borrow().clone();
        let listing = list::everything(&connection, previous.as_deref());
        let result = timeout(shared.settings.list_timeout, listing).await;
        match result.unwrap_or(Err(LinkError::Protocol("listing timed out".to_owned()))) {
            Ok(discovered) => publish(shared, discovered),
            Err(error) if error.ends_connection() => shared.discard(&connection, &error),
            Err(error) => {
                tracing::warn!(error = error.detail(), "listing failed, the last definitions stay");
                shared.remember_error(format!("listing failed: {}", error.detail()));
            }
        }
    }
}

fn publish(shared: &Shared, discovered: Discovered) {
    lock(&shared.live).last_refresh = Some(SystemTime::now());
    shared.discovered.send_if_modified(|current| {
        // The text is what the definitions were read from, so equal texts are equal definitions.
        let changed = current.as_deref().map(Discovered::to_json) != Some(discovered.to_json());
        if changed {
            *current = Some(Arc::new(discovered));
        }
        changed
    });
}
