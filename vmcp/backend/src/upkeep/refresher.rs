//! The refresher: a task that lists a backend's definitions on every connection, on `list_changed`, on demand
//! and on a timer. A listing that fails keeps the last good definitions and is repeated with backoff.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Instant, SystemTime};

use tokio::time::{sleep, timeout};
use vmcp_model::discovered::Discovered;

use crate::connection::Connection;
use crate::policy::relisting::Relisting;
use crate::policy::settings::BackendSettings;
use crate::sharing::core::BackendCore;
use crate::transport::LinkError;
use crate::upkeep::listing::{self, Listed};

/// Reason why the tools of a backend that is this vmcp are not taken.
const LEADS_BACK: &str = "it leads back to this vmcp, whose tools are among its own";

/// Runs until the backend is stopped.
pub(crate) async fn run(shared: Arc<BackendCore>) {
    let stop = shared.facts.stop.clone();
    let _ = stop.run_until_cancelled(keep_fresh(&shared)).await;
}

async fn keep_fresh(shared: &BackendCore) {
    let mut relisting = Relisting::new(shared.discovered.borrow().is_some());
    let mut listed: Weak<Connection> = Weak::new();
    loop {
        // Read in each round: a reload may have changed them.
        let settings = &shared.facts.settings();
        // The timer does not connect a backend that no call has needed.
        let pause = relisting.pause(settings);
        let until_look = pause.min(settings.unheard_refresh_interval);
        let announced = timeout(until_look, shared.facts.changed.notified()).await.is_ok();
        let Some(connection) = shared.current.load_full() else { continue };
        let is_due = relisting.is_due(pause, Instant::now());
        if !announced && !is_due && connection.hears_changes() {
            continue;
        }
        // The first listing of a connection is awaited, so it starts at once; later changes come in bursts
        // and are debounced.
        if announced && std::ptr::eq(listed.as_ptr(), Arc::as_ptr(&connection)) {
            sleep(relisting.debounce(settings.refresh_debounce, Instant::now())).await;
        }
        listed = Arc::downgrade(&connection);
        let previous = shared.discovered.borrow().clone();
        let listing = listing::everything(&connection, previous.as_deref());
        shared.listing.store(true, Ordering::Relaxed);
        let result = timeout(settings.list_timeout, listing).await;
        shared.listing.store(false, Ordering::Relaxed);
        let result = result.unwrap_or(Err(LinkError::Protocol("listing timed out".to_owned())));
        let failure = match result {
            Ok(Listed { discovered: Some(found), .. }) if leads_back(settings, &found) => {
                Some(LEADS_BACK.to_owned())
            }
            Ok(Listed { discovered, refusal }) => {
                publish(shared, previous.as_deref(), discovered);
                refusal
            }
            Err(error) => {
                if connection.channel.link.ends_with(&error) {
                    shared.discard(&connection, &error);
                }
                Some(error.detail())
            }
        };
        let is_first = relisting.record(failure.is_none(), Instant::now());
        let Some(error) = failure else { continue };
        shared.remember_error(format!("listing failed: {error}"));
        if is_first {
            tracing::warn!(error, "listing failed, it is repeated; the last definitions stay");
        } else {
            tracing::debug!(error, "listing failed again");
        }
    }
}

/// True if vmcp's own tools are among those of the backend: it leads back here, perhaps through others.
fn leads_back(settings: &BackendSettings, found: &Discovered) -> bool {
    let Some(mark) = settings.own_mark.as_deref() else { return false };
    found.tools.iter().any(|tool| tool.raw.get().contains(mark))
}

/// Publishes definitions, unless the server refused to list its tools and none are known of before.
fn publish(shared: &BackendCore, previous: Option<&Discovered>, found: Option<Discovered>) {
    let Some(found) = found else { return };
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
