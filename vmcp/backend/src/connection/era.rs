//! Connects to a backend and finds out which era it speaks: `server/discover` first, then `initialize`.

use std::borrow::Cow;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::{sleep, timeout};
use vmcp_config::{Isolation, ProtocolEra, Transport};
use vmcp_json::object::Object;
use vmcp_wire::era::{Era, Revision};
use vmcp_wire::handshake::{self, HandshakeError, Introduction};
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::{methods, rpc};

use crate::connection::client_capabilities::DECLARED;
use crate::connection::{Connection, EraHint, ServerProfile, revision_choice};
use crate::inbound::owner::Owner;
use crate::policy::facts::Facts;
use crate::request::{Request, RpcOutcome};
use crate::transport::{self, Channel, Link, LinkError};

/// Interval without CPU use after which a silent program counts as started, at most.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);
/// Time for which a program that uses the CPU may stay silent before it is initialized.
const MAX_BUSY_START: Duration = Duration::from_secs(10);
/// Time for the answer to the probe to follow that to `initialize`, at a server that works side by side.
const LATE_ANSWER: Duration = Duration::from_millis(100);

/// Result of the probe for the era.
enum Probe {
    Modern(ServerProfile),
    /// The server answered, and not as a modern one does.
    Legacy,
    /// The server refused, and names vmcp's revision as one that it supports.
    Again,
    /// The answer says nothing about the era, such as HTTP 500 or a closed connection.
    Unclear,
    /// No answer came in time: a legacy server that ignores unknown methods, or one that is slow to start.
    Silent,
    /// The process exited when asked.
    Died,
}

/// Result of a negotiation.
enum Negotiated {
    Server(ServerProfile),
    /// This process cannot be used, and another one speaks this era: it died of the probe, or it is modern
    /// and was initialized before it said so, which some servers take as the choice of their era.
    Restart(Era),
}

/// Connects and performs the handshake. The caller limits the time.
pub(crate) async fn connect(facts: &Facts, hint: EraHint) -> Result<Connection, LinkError> {
    let channel = transport::open(facts, Owner::Everyone, None).await?;
    let legacy = facts.spec.protocol_era == ProtocolEra::Legacy
        || matches!(facts.spec.transport, Transport::Sse { .. });
    let (channel, server) = if legacy {
        let server = initialize(facts, &channel, EraHint::Legacy).await?;
        (channel, server)
    } else if hint == EraHint::Legacy && facts.spec.protocol_era == ProtocolEra::Auto {
        let server = initialize_or_probe(facts, &channel, EraHint::Legacy).await?;
        (channel, server)
    } else {
        // Boxed: the state of a negotiation is large, and it runs once a connection.
        match Box::pin(negotiate(facts, &channel, hint)).await? {
            Negotiated::Server(server) => (channel, server),
            Negotiated::Restart(era) => {
                // Ended before the next one begins: a program may hold a port or a lock.
                channel.closed.cancel();
                channel.link.close().await;
                drop(channel);
                let channel = transport::open(facts, Owner::Everyone, None).await?;
                let server = match era {
                    Era::Legacy => initialize(facts, &channel, EraHint::Legacy).await?,
                    Era::Modern => again_modern(facts, &channel).await?,
                };
                (channel, server)
            }
        }
    };
    Ok(Connection::new(facts, channel, Arc::new(server)))
}

/// Time for the answer to the probe. A program that is known to be modern has all the time of its start.
fn probe_timeout(facts: &Facts, hint: EraHint) -> Duration {
    let settings = facts.settings();
    let is_modern = hint == EraHint::Modern || facts.spec.protocol_era == ProtocolEra::Modern;
    match facts.spec.transport {
        Transport::Stdio { .. } if is_modern => settings.stdio_probe_timeout.max(settings.connection_timeout),
        Transport::Stdio { .. } => settings.stdio_probe_timeout,
        _ => settings.http_probe_timeout,
    }
}

async fn negotiate(facts: &Facts, channel: &Channel, hint: EraHint) -> Result<Negotiated, LinkError> {
    let patience = probe_timeout(facts, hint);
    let nothing = OwnedParams::empty();
    let discover = Request::new(methods::DISCOVER, &nothing);
    let mut discover = pin!(channel.exchange(Revision::MODERN, &discover, None));
    let probed = tokio::select! {
        answer = &mut discover => classify(channel, answer)?,
        () = silence(facts, patience) => Probe::Silent,
    };
    if facts.spec.protocol_era == ProtocolEra::Modern && !matches!(probed, Probe::Modern(_) | Probe::Again) {
        let reason = "the server does not speak 2026-07-28, the only revision that `protocolEra` allows";
        return Err(LinkError::Protocol(reason.to_owned()));
    }
    let server = match probed {
        Probe::Modern(server) => server,
        Probe::Legacy => initialize(facts, channel, EraHint::Legacy).await?,
        Probe::Again => match probe(channel, patience).await? {
            Probe::Modern(server) => server,
            _ => initialize(facts, channel, EraHint::Unknown).await?,
        },
        Probe::Unclear => initialize(facts, channel, EraHint::Unknown).await?,
        Probe::Silent if matches!(channel.link, Link::Duplex(_)) => {
            return silent_program(facts, channel, patience, discover).await;
        }
        Probe::Silent => initialize_or_probe(facts, channel, EraHint::Unknown).await?,
        Probe::Died => return Ok(Negotiated::Restart(Era::Legacy)),
    };
    Ok(Negotiated::Server(server))
}

/// Returns once an unanswered probe has taken too long: after `patience`, and from a program that uses the
/// CPU, because it is loading or being installed, once it is idle.
async fn silence(facts: &Facts, patience: Duration) {
    if !facts.spec.starts_process() {
        return sleep(patience).await;
    }
    let interval = IDLE_INTERVAL.min(patience / 4);
    sleep(patience.saturating_sub(interval)).await;
    let _ = timeout(MAX_BUSY_START, facts.activity.until_idle(interval)).await;
}

/// Initializes a program that has not answered the probe, `discover`, in time. The probe stays under way: a
/// program that was slow to start still answers it, and its era must not depend on its speed.
async fn silent_program(
    facts: &Facts,
    channel: &Channel,
    patience: Duration,
    mut discover: Pin<&mut impl Future<Output = Result<RpcOutcome, LinkError>>>,
) -> Result<Negotiated, LinkError> {
    let mut initialized = pin!(initialize(facts, channel, EraHint::Unknown));
    let (discovered, initialized) = tokio::select! {
        biased;
        answer = &mut discover => match classify(channel, answer)? {
            Probe::Died => return Ok(Negotiated::Restart(Era::Legacy)),
            discovered @ Probe::Modern(_) => {
                let refused = Err(LinkError::ConnectTimeout { detail: String::new() });
                (discovered, timeout(patience, initialized).await.unwrap_or(refused))
            }
            other => (other, initialized.await),
        },
        initialized = &mut initialized => {
            // One that refuses `initialize` is modern, and answers the probe by and by.
            let more = if initialized.is_ok() { LATE_ANSWER } else { patience };
            match timeout(more, discover).await {
                Ok(answer) => (classify(channel, answer)?, initialized),
                Err(_) => (Probe::Silent, initialized),
            }
        }
    };
    match (discovered, initialized) {
        (Probe::Modern(server), Err(error)) if is_refusal(&error) => Ok(Negotiated::Server(server)),
        (Probe::Modern(_), _) => {
            tracing::info!("started slowly, and speaks the newest revision: it is started again for it");
            Ok(Negotiated::Restart(Era::Modern))
        }
        (_, initialized) => initialized.map(Negotiated::Server),
    }
}

/// Probes a program that was found to be modern, for as long as it may take to start.
async fn again_modern(facts: &Facts, channel: &Channel) -> Result<ServerProfile, LinkError> {
    match probe(channel, probe_timeout(facts, EraHint::Modern)).await? {
        Probe::Modern(server) => Ok(server),
        _ => initialize(facts, channel, EraHint::Unknown).await,
    }
}

/// True for an answer by which a server refuses `initialize`.
fn is_refusal(error: &LinkError) -> bool {
    matches!(
        error,
        LinkError::Protocol(_) | LinkError::Unreadable { .. } | LinkError::InitializeRefused { .. }
    )
}

/// Performs the legacy handshake, and probes if the server refuses it: one that was slow to start, or was
/// replaced since it was legacy, may speak the modern era only. By now it should be quick.
async fn initialize_or_probe(
    facts: &Facts,
    channel: &Channel,
    hint: EraHint,
) -> Result<ServerProfile, LinkError> {
    let refusal = match initialize(facts, channel, hint).await {
        Err(error) if is_refusal(&error) => error,
        other => return other,
    };
    match probe(channel, probe_timeout(facts, EraHint::Unknown)).await? {
        Probe::Modern(server) => Ok(server),
        _ => Err(refusal),
    }
}

/// True if a server that was modern answers the probe as a legacy one does.
pub(super) async fn speaks_legacy_only(channel: &Channel, patience: Duration) -> bool {
    matches!(probe(channel, patience).await, Ok(Probe::Legacy))
}

/// Probes for the era.
async fn probe(channel: &Channel, patience: Duration) -> Result<Probe, LinkError> {
    let nothing = OwnedParams::empty();
    let request = Request::new(methods::DISCOVER, &nothing);
    match timeout(patience, channel.exchange(Revision::MODERN, &request, None)).await {
        Ok(answer) => classify(channel, answer),
        Err(_) => Ok(Probe::Silent),
    }
}

/// Reads the answer to a probe. Answers of all kinds exist in the field: errors, HTTP 400 and 500, results
/// that list legacy revisions only, and exits.
fn classify(channel: &Channel, answer: Result<RpcOutcome, LinkError>) -> Result<Probe, LinkError> {
    let is_duplex = matches!(channel.link, Link::Duplex(_));
    match answer {
        Ok(RpcOutcome::Result(result)) => {
            let hint = if is_duplex { EraHint::Modern } else { EraHint::Unknown };
            Ok(discovered(&result, hint).map_or(Probe::Legacy, Probe::Modern))
        }
        Ok(RpcOutcome::Error(error)) if handshake::offers_modern(&error) => Ok(Probe::Again),
        Ok(RpcOutcome::Error(_) | RpcOutcome::Arriving(_))
        | Err(LinkError::Protocol(_) | LinkError::Unreadable { .. }) => Ok(Probe::Legacy),
        Err(LinkError::Status(refusal)) if refusal.is_client_error() => Ok(Probe::Legacy),
        Err(LinkError::Closed { .. } | LinkError::Gone { .. }) if is_duplex => Ok(Probe::Died),
        // Some servers close the connection on a method that they do not know.
        Err(LinkError::Status(_) | LinkError::Closed { .. }) => Ok(Probe::Unclear),
        Err(error) => Err(error),
    }
}

/// Reads the answer of a modern server. A server that does not list the revision is a legacy one that answers
/// unknown methods kindly (go-sdk).
fn discovered(result: &RawValue, hint: EraHint) -> Option<ServerProfile> {
    let introduction = Introduction::from_discover(result).ok().filter(Introduction::is_modern)?;
    Some(server(Revision::MODERN, introduction, hint))
}

/// Performs the legacy handshake of the main connection. Where clients share a stream or a process none can
/// be asked, so nothing is declared.
async fn initialize(facts: &Facts, channel: &Channel, hint: EraHint) -> Result<ServerProfile, LinkError> {
    let is_deaf = facts.spec.isolation == Some(Isolation::Shared) && matches!(channel.link, Link::Duplex(_));
    let declared = if is_deaf { "{}" } else { DECLARED };
    let server = introduce(channel, Revision::LATEST_LEGACY, &channel.client_info, declared).await?;
    Ok(ServerProfile { hint, ..server })
}

/// Performs the legacy handshake; `info` and `capabilities` are the client's, as JSON. A server that refuses
/// the revision is asked with the next one, see [`revision_choice`].
pub(crate) async fn introduce(
    channel: &Channel,
    revision: Revision,
    info: &str,
    capabilities: &str,
) -> Result<ServerProfile, LinkError> {
    let mut tried = vec![revision];
    let mut first = None;
    loop {
        let asked = tried.last().copied().unwrap_or(revision);
        let error = match introduce_as(channel, asked, info, capabilities).await {
            Ok(server) => return Ok(server),
            Err(error) => error,
        };
        let Some(next) = revision_choice::next(&error, &tried) else {
            // The first refusal is about the revision that vmcp prefers: it tells most.
            return Err(first.unwrap_or(error));
        };
        tracing::debug!(error = error.detail(), refused = %asked, %next, "initialize was refused");
        tried.push(next);
        first.get_or_insert(error);
    }
}

async fn introduce_as(
    channel: &Channel,
    revision: Revision,
    info: &str,
    capabilities: &str,
) -> Result<ServerProfile, LinkError> {
    let params = handshake::initialize_params(revision, info, capabilities);
    let params = OwnedParams::from_text(params).map_err(|error| LinkError::Protocol(error.to_string()))?;
    let request = Request::new(methods::INITIALIZE, &params);
    let result = match channel.exchange(revision, &request, None).await? {
        RpcOutcome::Result(result) => result,
        RpcOutcome::Error(error) => {
            // A modern server that was slow to start refuses it too: the caller knows what it means.
            let said = channel.words(error_text(&error).as_bytes());
            return Err(LinkError::InitializeRefused { error: error.into_raw(), said });
        }
        RpcOutcome::Arriving(_) => return Err(LinkError::not_collected()),
    };
    let introduction = Introduction::from_initialize(&result).map_err(|error| {
        let (reason, text) = match error {
            HandshakeError::UnknownRevision(revision) => {
                ("initialize was answered with an unknown revision", revision)
            }
            error => ("the answer to initialize cannot be read", format!("{error}, {}", result.get())),
        };
        LinkError::Unreadable { reason, said: channel.words(text.as_bytes()) }
    })?;
    let revision = introduction.revisions.iter().copied().find(|revision| revision.era() == Era::Legacy);
    let Some(revision) = revision else {
        return Err(LinkError::Protocol("initialize was answered with a revision that has none".to_owned()));
    };
    if let Link::Http(http) = &channel.link {
        http.negotiated(revision);
    }
    match channel.link.notify(rpc::notification(methods::INITIALIZED, None).into()).await {
        // The specification wants 202; a server that answers a notification with an error still serves calls.
        Err(error @ LinkError::Status(_)) => {
            tracing::info!(error = error.detail(), "the server did not accept notifications/initialized");
        }
        sent => sent?,
    }
    Ok(server(revision, introduction, EraHint::Legacy))
}

/// Returns the message of an error, and its data if there are any.
fn error_text(error: &RawValue) -> String {
    let object = Object::parse(error).unwrap_or_default();
    let message = object.get_str("message").unwrap_or_default();
    match object.text("data").filter(|data| *data != "null") {
        Some(data) => format!("{message} ({data})"),
        None => message.into_owned(),
    }
}

fn server(revision: Revision, introduction: Introduction<'_>, hint: EraHint) -> ServerProfile {
    let capabilities = Object::parse(introduction.capabilities).unwrap_or_default();
    ServerProfile {
        revision,
        logs: capabilities.text("logging").is_some_and(|logging| logging != "null"),
        capabilities: introduction.capabilities.to_owned(),
        info: introduction.server_info.map(ToOwned::to_owned),
        instructions: introduction.instructions.map(Cow::into_owned),
        hint,
    }
}
