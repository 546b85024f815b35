//! Connects to a backend and finds out which era it speaks: `server/discover` first, then `initialize`.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::timeout;
use vmcp_config::{Isolation, ProtocolEra, Transport};
use vmcp_json::object::Object;
use vmcp_wire::era::{Era, Revision};
use vmcp_wire::handshake::{self, Introduction};
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::{methods, rpc};

use crate::connection::client_capabilities::DECLARED;
use crate::connection::{Connection, EraHint, ServerProfile};
use crate::inbound::owner::Owner;
use crate::policy::facts::Facts;
use crate::request::{Request, RpcOutcome};
use crate::transport::{self, Channel, Link, LinkError};

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
        negotiate(facts, channel).await?
    };
    Ok(Connection::new(channel, Arc::new(server)))
}

fn probe_timeout(facts: &Facts) -> Duration {
    match facts.spec.transport {
        Transport::Stdio { .. } => facts.settings().stdio_probe_timeout,
        _ => facts.settings().http_probe_timeout,
    }
}

async fn negotiate(facts: &Facts, channel: Channel) -> Result<(Channel, ServerProfile), LinkError> {
    let patience = probe_timeout(facts);
    let probed = probe(&channel, patience).await?;
    if facts.spec.protocol_era == ProtocolEra::Modern && !matches!(probed, Probe::Modern(_) | Probe::Again) {
        let reason = "the server does not speak 2026-07-28, the only revision that `protocolEra` allows";
        return Err(LinkError::Protocol(reason.to_owned()));
    }
    let server = match probed {
        Probe::Modern(server) => server,
        Probe::Legacy => initialize(facts, &channel, EraHint::Legacy).await?,
        Probe::Again => match probe(&channel, patience).await? {
            Probe::Modern(server) => server,
            _ => initialize(facts, &channel, EraHint::Unknown).await?,
        },
        Probe::Unclear => initialize(facts, &channel, EraHint::Unknown).await?,
        Probe::Silent => initialize_or_probe(facts, &channel, EraHint::Unknown).await?,
        Probe::Died => {
            let channel = transport::open(facts, Owner::Everyone, None).await?;
            let server = initialize(facts, &channel, EraHint::Legacy).await?;
            return Ok((channel, server));
        }
    };
    Ok((channel, server))
}

/// Performs the legacy handshake, and probes if the server refuses it: one that was slow to start, or was
/// replaced since it was legacy, may speak the modern era only. By now it should be quick.
async fn initialize_or_probe(
    facts: &Facts,
    channel: &Channel,
    hint: EraHint,
) -> Result<ServerProfile, LinkError> {
    let reason = match initialize(facts, channel, hint).await {
        Err(LinkError::Protocol(reason)) => reason,
        other => return other,
    };
    match probe(channel, probe_timeout(facts)).await? {
        Probe::Modern(server) => Ok(server),
        _ => Err(LinkError::Protocol(reason)),
    }
}

/// True if a server that was modern answers the probe as a legacy one does.
pub(super) async fn speaks_legacy_only(channel: &Channel, patience: Duration) -> bool {
    matches!(probe(channel, patience).await, Ok(Probe::Legacy))
}

/// Probes for the era. Answers of all kinds exist in the field: errors, HTTP 400 and 500, results that list
/// legacy revisions only, silence, and exits.
async fn probe(channel: &Channel, patience: Duration) -> Result<Probe, LinkError> {
    let nothing = OwnedParams::empty();
    let request = Request::new(methods::DISCOVER, &nothing);
    let Ok(answer) = timeout(patience, channel.exchange(Revision::MODERN, &request, None)).await else {
        return Ok(Probe::Silent);
    };
    match answer {
        Ok(RpcOutcome::Result(result)) => Ok(discovered(&result).map_or(Probe::Legacy, Probe::Modern)),
        Ok(RpcOutcome::Error(error)) if handshake::offers_modern(&error) => Ok(Probe::Again),
        Ok(RpcOutcome::Error(_) | RpcOutcome::Arriving(_)) | Err(LinkError::Protocol(_)) => Ok(Probe::Legacy),
        Err(LinkError::Status(status)) if status.is_client_error() => Ok(Probe::Legacy),
        Err(LinkError::Closed { .. } | LinkError::Gone { .. }) if matches!(channel.link, Link::Duplex(_)) => {
            Ok(Probe::Died)
        }
        // Some servers close the connection on a method that they do not know.
        Err(LinkError::Status(_) | LinkError::Closed { .. }) => Ok(Probe::Unclear),
        Err(error) => Err(error),
    }
}

/// Reads the answer of a modern server. A server that does not list the revision is a legacy one that answers
/// unknown methods kindly (go-sdk).
fn discovered(result: &RawValue) -> Option<ServerProfile> {
    let introduction = Introduction::from_discover(result).ok().filter(Introduction::is_modern)?;
    Some(server(Revision::MODERN, introduction, EraHint::Unknown))
}

/// Performs the legacy handshake of the main connection. Where clients share a stream or a process none can
/// be asked, so nothing is declared.
async fn initialize(facts: &Facts, channel: &Channel, hint: EraHint) -> Result<ServerProfile, LinkError> {
    let is_deaf = facts.spec.isolation == Some(Isolation::Shared) && matches!(channel.link, Link::Duplex(_));
    let declared = if is_deaf { "{}" } else { DECLARED };
    let server = introduce(channel, Revision::LATEST_LEGACY, &channel.client_info, declared).await?;
    Ok(ServerProfile { hint, ..server })
}

/// Performs the legacy handshake; `info` and `capabilities` are the client's, as JSON.
pub(crate) async fn introduce(
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
            tracing::debug!(error = error.get(), "initialize was refused");
            return Err(LinkError::Protocol("initialize was refused".to_owned()));
        }
        RpcOutcome::Arriving(_) => return Err(LinkError::not_collected()),
    };
    let introduction =
        Introduction::from_initialize(&result).map_err(|error| LinkError::Protocol(error.to_string()))?;
    let revision = introduction.revisions.iter().copied().find(|revision| revision.era() == Era::Legacy);
    let Some(revision) = revision else {
        return Err(LinkError::Protocol("initialize was answered with a revision that has none".to_owned()));
    };
    if let Link::Http(http) = &channel.link {
        http.negotiated(revision);
    }
    channel.link.notify(rpc::notification(methods::INITIALIZED, None).into()).await?;
    Ok(server(revision, introduction, EraHint::Legacy))
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
