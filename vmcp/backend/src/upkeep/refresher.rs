//! The refresher: a task that lists a backend's definitions on every connection, on `list_changed`, on demand
//! and on a timer. A listing that fails keeps the last good definitions and is repeated with backoff.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use tokio::time::{sleep, timeout};
use vmcp_model::discovered::Discovered;

use crate::connection::Connection;
use crate::policy::relisting::Relisting;
use crate::policy::settings::BackendSettings;
use crate::sharing::core::{BackendCore, ListingOutcome};
use crate::transport::LinkError;
use crate::upkeep::listing::ListingRound;

/// Time for the other lists before the tools are served without them: a multiple of the time that the tools
/// took, within these bounds. Most servers answer all lists alike, and one publication is less work than two.
const OTHERS_FACTOR: u32 = 2;
const MIN_OTHERS_GRACE: Duration = Duration::from_millis(50);
const MAX_OTHERS_GRACE: Duration = Duration::from_secs(1);

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
        shared.listing.store(true, Ordering::Relaxed);
        let result = list(shared, settings, &connection).await;
        shared.listing.store(false, Ordering::Relaxed);
        let (failure, may_pass) = match result {
            Ok(Listed { failure, may_pass }) => (failure, may_pass),
            Err(error) => {
                if connection.channel.link.ends_with(&error) {
                    shared.discard(&connection, &error);
                }
                (Some(error.detail()), true)
            }
        };
        let is_first = relisting.record(!may_pass, Instant::now());
        let Some(error) = failure else { continue };
        shared.remember_error(format!("listing failed: {error}"));
        if is_first {
            tracing::warn!(error, "listing failed, it is repeated; the last definitions stay");
        } else {
            tracing::debug!(error, "listing failed again");
        }
    }
}

/// Result of a listing on a connection that lives.
struct Listed {
    /// Reason why a list is not there, or not whole.
    failure: Option<String>,
    /// True if listing again soon may help.
    may_pass: bool,
}

/// Lists everything and publishes it: the tools as soon as they are there, if other lists take longer.
async fn list(
    shared: &BackendCore,
    settings: &BackendSettings,
    connection: &Connection,
) -> Result<Listed, LinkError> {
    let begun = Instant::now();
    let outcome = |error| ListingOutcome { begun: Some(begun), error };
    let previous = shared.discovered.borrow().clone();
    let round =
        ListingRound::new(connection, previous.as_deref(), settings.list_timeout, &shared.list_crashes);
    // A connection that has ended is replaced and listed: its listing is the outcome.
    round.tools().await?;
    let (of_tools, _) = round.failures();
    let asked = Instant::now();
    let grace = (begun.elapsed() * OTHERS_FACTOR).clamp(MIN_OTHERS_GRACE, MAX_OTHERS_GRACE);
    let mut others = pin!(round.others());
    let ended = if let Ok(ended) = timeout(grace, &mut others).await {
        ended
    } else {
        let so_far = complete(shared, round.discovered());
        if publish(shared, settings, previous.as_deref(), so_far, of_tools.is_none()) {
            shared.listed.send_replace(outcome(of_tools.clone()));
        }
        tokio::select! {
            ended = &mut others => ended,
            () = announced(shared) => {
                round.give_up(asked.elapsed());
                Ok(())
            }
        }
    };
    let found = complete(shared, round.discovered());
    let leads_back = found.as_ref().is_some_and(|found| leads_back(settings, found));
    publish(shared, settings, previous.as_deref(), found, of_tools.is_none());
    let (of_tools, failure) = if leads_back {
        (Some(LEADS_BACK.to_owned()), Some(LEADS_BACK.to_owned()))
    } else {
        round.failures()
    };
    shared.listed.send_replace(outcome(of_tools));
    ended?;
    Ok(Listed { may_pass: leads_back || round.is_worth_repeating(), failure })
}

/// Adds what a server of both eras has shown to legacy clients.
fn complete(shared: &BackendCore, found: Option<Discovered>) -> Option<Discovered> {
    let legacy = shared.facts.legacy_capabilities();
    found.map(|found| Discovered { legacy_capabilities: legacy.or(found.legacy_capabilities), ..found })
}

/// Waits until the server announces a change while some lists are still awaited. They had their time: the
/// tools that changed do not wait for a list that hangs.
async fn announced(shared: &BackendCore) {
    sleep(MAX_OTHERS_GRACE).await;
    shared.facts.changed.notified().await;
    // The next round takes it.
    shared.facts.changed.notify_one();
}

/// True if vmcp's own tools are among those of the backend: it leads back here, perhaps through others.
fn leads_back(settings: &BackendSettings, found: &Discovered) -> bool {
    let Some(mark) = settings.own_mark.as_deref() else { return false };
    found.tools.iter().any(|tool| tool.raw.get().contains(mark))
}

/// Publishes definitions if there are any, and tools of its own among them are not vmcp's. Returns false if
/// they are not taken. `lists_tools`: the server has listed its tools just now.
fn publish(
    shared: &BackendCore,
    settings: &BackendSettings,
    previous: Option<&Discovered>,
    found: Option<Discovered>,
    lists_tools: bool,
) -> bool {
    let Some(found) = found.filter(|found| !leads_back(settings, found)) else { return false };
    if lists_tools {
        let mut live = shared.live.lock();
        live.last_refresh = Some(SystemTime::now());
        live.last_error = None;
    }
    // An early publication may have come in between.
    let is_same = |before: &Discovered| before.is_same(&found);
    let current = shared.discovered.borrow().clone();
    if !current.as_deref().or(previous).is_some_and(is_same) {
        shared.discovered.send_replace(Some(Arc::new(found)));
    }
    true
}
