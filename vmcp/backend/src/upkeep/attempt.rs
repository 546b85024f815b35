//! One attempt to connect: the slot of a program that starts, and the time limit. Programs that work keep
//! their slot, and package runners get more time while they install.

use std::future::pending;
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};
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
const PACKAGE_RUNNERS: [&str; 9] = ["npx", "uvx", "uv", "bunx", "bun", "pnpm", "yarn", "pipx", "docker"];

/// Connects, once a program has a slot to start in; returns the connection, and its time from the slot on.
/// `known` is true for a backend that was listed before.
pub(super) async fn connect(
    facts: &Facts,
    hint: EraHint,
    known: bool,
) -> Result<(Connection, Duration), LinkError> {
    // A closed semaphore is no reason not to start; nothing closes it.
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
