//! One attempt to connect: the slot of a program that starts, and the time limit. Programs that work keep
//! their slot, and package runners get more time while they install. The program of a package runner is
//! pinned after a start that succeeded, and started by itself from then on.

use std::future::pending;
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};
use tracing::Instrument as _;
use vmcp_config::Transport;

use crate::connection::era;
use crate::connection::{Connection, EraHint};
use crate::policy::facts::Facts;
use crate::transport::LinkError;

/// Longest time for which one start keeps its slot; a slower one goes on without.
const MAX_SLOT_TIME: Duration = Duration::from_mins(2);
/// Times that the time limit of an attempt is longer while a package runner's server was never listed.
const FIRST_RUN_FACTOR: u32 = 4;
/// Longest first run of a package runner that works all the time: one hour. Beyond, the attempt has failed.
const MAX_FIRST_RUN: Duration = Duration::from_hours(1);
/// Programs that download a server before they run it.
const PACKAGE_RUNNERS: [&str; 14] =
    ["npx", "npm", "uvx", "uv", "bunx", "bun", "pnpm", "pnpx", "pn", "pnx", "yarn", "pipx", "deno", "docker"];

/// Connects, once a program has a slot to start in; returns the connection, and its time from the slot on.
/// `known` is true for a backend that was listed before. Where a pinned program fails, its package runner
/// starts it, and may install it again. The pin stays if the runner fails too, as npx does offline. A pinned
/// program installs nothing: it has the usual time, so that its runner gets a turn soon after a hang.
pub(super) async fn connect(
    facts: &Facts,
    hint: EraHint,
    known: bool,
) -> Result<(Connection, Duration), LinkError> {
    let pinned = facts.pinned_program();
    let mut outcome = Box::pin(connect_once(facts, hint, known || pinned.is_some())).await;
    if outcome.is_ok()
        && pinned.is_some()
        && let Some((pins, run)) = facts.package_run()
    {
        pins.clear_failures(&run);
    }
    if let Err(error) = &outcome
        && let Some(pinned) = pinned
        && !matches!(error, LinkError::Stopped)
        && let Some((pins, run)) = facts.package_run()
    {
        let (error, package) = (error.detail(), run.package());
        tracing::info!(error, package, "the pinned program failed; its package runner starts it");
        pins.forget(&run);
        outcome = Box::pin(connect_once(facts, hint, known)).await;
        if outcome.is_ok()
            && let Err(error) = pins.add_failure(&run, &pinned)
        {
            tracing::debug!(%error, package = run.package(), "cannot count the failure");
        }
        // `vmcp update` may have pinned another version meanwhile.
        if outcome.is_err()
            && pins.find(&run).is_none()
            && let Err(error) = pins.save(&run, &pinned)
        {
            tracing::debug!(%error, package = run.package(), "cannot pin the program");
        }
    }
    if outcome.is_ok() && facts.pinned_program().is_none() {
        pin(facts);
    }
    outcome
}

/// Pins the program that a package runner has started, in the background.
fn pin(facts: &Facts) {
    let Some((pins, run)) = facts.package_run() else { return };
    let stop = facts.stop.clone();
    let found = async move {
        let Some(program) = stop.run_until_cancelled(run.resolve()).await.flatten() else { return };
        let (package, version) = (&program.package, &program.version);
        if pins.needs_runner(&run, &program) {
            tracing::info!(package, version, "not pinned: the program failed each time without its runner");
            return;
        }
        match pins.save(&run, &program) {
            Ok(()) => tracing::info!(package, version, "pinned: later starts run the program itself"),
            Err(error) => tracing::debug!(%error, package, "cannot pin the program"),
        }
    };
    tokio::spawn(found.in_current_span());
}

async fn connect_once(
    facts: &Facts,
    hint: EraHint,
    known: bool,
) -> Result<(Connection, Duration), LinkError> {
    // Starts also with a closed semaphore; nothing closes it.
    let slot = if facts.spec.starts_process() {
        facts.settings().starts.clone().acquire_owned().await.ok()
    } else {
        None
    };
    let begin = Instant::now();
    tokio::select! {
        connected = era::connect(facts, hint) => connected.map(|connection| (connection, begin.elapsed())),
        () = keep_slot(facts, slot) => Err(LinkError::Stopped),
        waited = time_limit(facts, known) => {
            let detail = facts.last_words.explain(&format!("after {waited:?}"));
            Err(LinkError::ConnectTimeout { detail })
        }
    }
}

/// Keeps the slot while the program works: others that start meanwhile would only slow it down. A program
/// that waits, for a server far away or for ever, lets others start. Never returns.
async fn keep_slot(facts: &Facts, slot: Option<OwnedSemaphorePermit>) {
    if slot.is_some() {
        let idle_after = facts.settings().idle_start_after;
        let _ = timeout(MAX_SLOT_TIME, facts.activity.until_idle(idle_after)).await;
    }
    drop(slot);
    pending::<()>().await;
}

/// Returns when the attempt has taken too long, with the time that it took. A first run passes its limit only
/// if it is one of a package runner that works, and so is still unpacking or compiling.
async fn time_limit(facts: &Facts, known: bool) -> Duration {
    let begin = Instant::now();
    let settings = facts.settings();
    if known || !installs(facts) {
        sleep(settings.connection_timeout).await;
        return settings.connection_timeout;
    }
    let limit = settings.connection_timeout * FIRST_RUN_FACTOR;
    sleep(limit).await;
    let more = MAX_FIRST_RUN.saturating_sub(limit);
    let _ = timeout(more, facts.activity.until_idle(settings.idle_start_after)).await;
    Duration::from_secs(begin.elapsed().as_secs())
}

/// True for a package runner whose time was left to vmcp.
fn installs(facts: &Facts) -> bool {
    let Transport::Stdio { command, .. } = &facts.spec.transport else { return false };
    facts.spec.connection_timeout.is_none() && is_package_runner(command)
}

fn is_package_runner(command: &str) -> bool {
    let file = command.rsplit(['/', '\\']).next().unwrap_or_default();
    PACKAGE_RUNNERS.contains(&file.split('.').next().unwrap_or_default())
}
