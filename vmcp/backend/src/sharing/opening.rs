//! Opens connections that clients own: an HTTP session, an event stream, a process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout};
use vmcp_wire::era::{Era, Revision};
use vmcp_wire::methods;
use vmcp_wire::owned::OwnedParams;

use crate::connection::client_capabilities;
use crate::connection::{Connection, era};
use crate::inbound::RouteGuard;
use crate::inbound::call_listener::CallListener;
use crate::inbound::owner::Owner;
use crate::policy::facts::Facts;
use crate::request::Request;
use crate::sharing::placement::{OwnerKey, Placement};
use crate::sharing::warm_processes::WarmProcesses;
use crate::transport::{self, Channel, Link, LinkError};

/// Time for the answer to the first ping; a slower server gets its call at once.
const FIRST_PING_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval at which a call looks whether its client has answered a question that came before it.
const ANSWER_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Time for a server that asks its clients for their roots to ask.
const FIRST_QUESTION_TIMEOUT: Duration = Duration::from_millis(500);
/// Bounds of the time that a server gets to work with the answer: it reads folders, and says nothing when it
/// has done so. Within them, this many times the round trip of the first ping.
const MIN_SETTLE: Duration = Duration::from_millis(100);
const MAX_SETTLE: Duration = Duration::from_millis(500);
const SETTLE_FACTOR: u32 = 4;

/// Opens a connection beside `main` for the call of `opener`, in the name of its client. The guard routes
/// messages that come before the call to it.
pub(crate) async fn open(
    facts: &Facts,
    main: &Connection,
    placement: Placement,
    opener: &Arc<CallListener>,
    warm: &WarmProcesses,
) -> Result<(Connection, RouteGuard), LinkError> {
    // A start beyond the slots waits; nothing closes the semaphore.
    let _slot = if facts.spec.starts_process() {
        Arc::clone(&facts.settings().starts).acquire_owned().await.ok()
    } else {
        None
    };
    let after = patience(facts, main, placement);
    let connection = timeout(after, connect(facts, main, placement, opener, warm)).await;
    let connection =
        connection.unwrap_or_else(|_| Err(LinkError::ConnectTimeout { detail: format!("after {after:?}") }));
    connection.inspect_err(|error| facts.observe_failed_connect(error.connect_reason()))
}

/// Starts a process that a client will own.
pub(crate) async fn start_warm(facts: &Facts) -> Option<Channel> {
    // A start beyond the slots waits; nothing closes the semaphore.
    let _slot = Arc::clone(&facts.settings().starts).acquire_owned().await.ok();
    transport::open(facts, Owner::Everyone, None).await.ok()
}

/// Time for the connection to be made. A server that may not know the other era answers soon or never.
fn patience(facts: &Facts, main: &Connection, placement: Placement) -> Duration {
    let settings = &facts.settings();
    if main.server.era() == placement.era || facts.spec.starts_process() {
        settings.connection_timeout
    } else {
        settings.http_probe_timeout.min(settings.connection_timeout)
    }
}

async fn connect(
    facts: &Facts,
    main: &Connection,
    placement: Placement,
    opener: &Arc<CallListener>,
    warm: &WarmProcesses,
) -> Result<(Connection, RouteGuard), LinkError> {
    let client = &opener.client;
    let channel = match warm.take(placement.owner) {
        Some(channel) => channel,
        None => transport::sibling(facts, &main.channel, placement.owner, opener.credentials.clone()).await?,
    };
    let route = channel.inbound.route_opening(Arc::clone(opener));
    if placement.era == Era::Modern {
        // This era has no handshake: each request says everything.
        return Ok((Connection::new(facts, channel, Arc::clone(&main.server)), route));
    }
    let info = client.info.as_deref().filter(|_| placement.named);
    let info = info.map_or(&*channel.client_info, RawValue::get);
    let capabilities = match placement.key {
        // Extensions that others of the principal may not know are left out.
        OwnerKey::Principal { .. } => placement.owner.abilities().to_capabilities(),
        OwnerKey::Session(_) | OwnerKey::Call(_) => {
            client_capabilities::relayed(client.capabilities.as_deref())
        }
    };
    let revision =
        if main.server.era() == Era::Legacy { main.server.revision } else { Revision::LATEST_LEGACY };
    let server = era::introduce(&channel, revision, info, &capabilities).await?;
    if main.server.era() == Era::Modern {
        facts.learn_legacy_capabilities(&server.capabilities);
    }
    // All sessions say the same about the server, and there may be thousands of them: one copy serves all.
    let same = server.revision == main.server.revision && server.logs == main.server.logs;
    let server = if same { Arc::clone(&main.server) } else { Arc::new(server) };
    Ok((Connection::new(facts, channel, server), route))
}

/// Waits until questions are answered that the server asked when it was introduced: a server that knows only
/// its client's roots can do nothing before. The caller's deadline stands still meanwhile.
pub(crate) async fn answer_first(facts: &Facts, connection: &Connection) {
    let inbound = &connection.channel.inbound;
    let abilities = inbound.owner().abilities();
    if abilities.is_empty() || connection.server.era() == Era::Modern {
        return;
    }
    // Over HTTP such questions come on the session's GET stream, which is open by now.
    let is_duplex = matches!(connection.channel.link, Link::Duplex(_));
    let begun = Instant::now();
    if is_duplex {
        // Servers take messages in order: what is asked because of the introduction comes before this answer.
        ping(connection).await;
    }
    let round_trip = begun.elapsed();
    // A server that has asked for roots before asks each client.
    if facts.asks_for_roots.load(Ordering::Relaxed) && abilities.allow(methods::ROOTS_LIST, None) {
        let is_asked = async {
            while !inbound.has_asked_at_opening() && !connection.channel.closed.is_cancelled() {
                sleep(ANSWER_POLL_INTERVAL).await;
            }
        };
        let _ = timeout(FIRST_QUESTION_TIMEOUT, is_asked).await;
    }
    if !inbound.has_asked_at_opening() {
        return;
    }
    while inbound.is_asked_at_opening() && !connection.channel.closed.is_cancelled() {
        sleep(ANSWER_POLL_INTERVAL).await;
    }
    if is_duplex {
        ping(connection).await;
    }
    sleep((round_trip * SETTLE_FACTOR).clamp(MIN_SETTLE, MAX_SETTLE)).await;
}

async fn ping(connection: &Connection) {
    let nothing = OwnedParams::empty();
    let _ = timeout(FIRST_PING_TIMEOUT, connection.ask(&Request::new(methods::PING, &nothing))).await;
}

/// True if `error` shows that a modern server does not speak the legacy era.
pub(crate) fn refuses_era(error: &LinkError) -> bool {
    match error {
        LinkError::Status(refusal) => refusal.is_client_error(),
        LinkError::Protocol(_)
        | LinkError::Unreadable { .. }
        | LinkError::InitializeRefused { .. }
        | LinkError::ConnectTimeout { .. }
        | LinkError::Closed { .. }
        | LinkError::Gone { .. }
        | LinkError::SessionInDoubt { .. }
        | LinkError::SessionLost(_) => true,
        _ => false,
    }
}
