//! Opens links to a backend by its configured transport.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use url::Url;
use vmcp_codex::AdapterSettings;
use vmcp_config::{Headers, Transport};

use crate::inbound::Inbound;
use crate::inbound::owner::Owner;
use crate::policy::configured_headers::first_unusable;
use crate::policy::facts::Facts;
use crate::program::last_words::LastWords;
use crate::program::package_runner::PinnedProgram;
use crate::request::SharedCredentials;
use crate::transport::body::AnswerLimits;
use crate::transport::channel::Channel;
use crate::transport::endpoint::Endpoint;
use crate::transport::link::{Duplex, Link};
use crate::transport::link_error::LinkError;
use crate::transport::{http, mux, sse, stdio, websocket};

/// Opens a link for calls of `owner`, without any handshake. `credentials` are those of its owner; `None`:
/// vmcp's own. A trait object: a connection is opened in many places, and each would compile all transports.
pub(crate) fn open(
    facts: &Facts,
    owner: Owner,
    credentials: Option<SharedCredentials>,
) -> BoxFuture<'_, Result<Channel, LinkError>> {
    Box::pin(open_link(facts, owner, credentials))
}

async fn open_link(
    facts: &Facts,
    owner: Owner,
    credentials: Option<SharedCredentials>,
) -> Result<Channel, LinkError> {
    let settings = &facts.settings();
    let closed = CancellationToken::new();
    let inbound = Arc::new(Inbound::new(facts, owner));
    let limits = AnswerLimits { bytes: settings.max_message_bytes, budget: settings.byte_budget.clone() };
    let of_owner = credentials.or_else(|| settings.credentials.clone());
    let endpoint = |url: &Url, headers: &Headers| {
        if let Some(name) = first_unusable(headers) {
            return Err(LinkError::Connect { detail: format!("the configured {name} is unusable") });
        }
        let make = match facts.spec.transport {
            Transport::WebSocket { .. } => Endpoint::of_websocket,
            _ => Endpoint::new,
        };
        make(settings.http.clone(), url, Arc::clone(&facts.headers), of_owner)
    };
    let link = match &facts.spec.transport {
        Transport::Http { url, headers } => {
            let endpoint = endpoint(url, headers)?;
            Link::Http(http::Http::new(endpoint, Arc::clone(&inbound), limits, closed.clone()))
        }
        Transport::Sse { url, headers } => {
            let endpoint = endpoint(url, headers)?;
            let (mux, to_write) = mux::Mux::new(Arc::clone(&inbound), closed.clone(), limits.budget);
            let task =
                sse::start(endpoint, url, limits.bytes, Arc::clone(&mux), to_write, closed.clone()).await?;
            Link::Duplex(Duplex::new(mux, task))
        }
        Transport::WebSocket { url, headers } => {
            let endpoint = endpoint(url, headers)?;
            let (mux, to_write) = mux::Mux::new(Arc::clone(&inbound), closed.clone(), limits.budget);
            let limits = websocket::WebSocketLimits {
                message_bytes: limits.bytes,
                ping_interval: settings.ping_interval,
            };
            let task = websocket::start(endpoint, limits, Arc::clone(&mux), to_write, closed.clone()).await?;
            Link::Duplex(Duplex::new(mux, task))
        }
        Transport::Stdio { command, args, env, cwd, inherit_env, idle_timeout: _ } => {
            let in_our_place = settings.in_our_place;
            // Words and activity of a client's own process are its client's.
            let (last_words, activity) = match owner {
                Owner::Everyone => (Arc::clone(&facts.last_words), Arc::clone(&facts.activity)),
                Owner::Session(..) | Owner::Principal(_) => {
                    (Arc::new(LastWords::new(facts.spec.known_secrets.clone())), Arc::default())
                }
            };
            let pinned = facts.pinned_program();
            let program = stdio::Program {
                command: pinned.as_ref().map_or(command, |pinned| &pinned.program),
                args: args.get(pinned.as_ref().map_or(0, |pinned| pinned.skipped)..).unwrap_or_default(),
                bin: pinned.as_ref().and_then(PinnedProgram::bin),
                env,
                cwd: cwd.as_deref(),
                inherit_env,
                served: settings.served.as_deref(),
                guard: settings.orphan_guard.as_ref(),
                in_our_place,
                last_words,
                activity,
                codex: facts.spec.codex.as_ref().map(|codex| AdapterSettings {
                    version: settings.client_version.clone(),
                    allow_dangerous: codex.allow_dangerous,
                    // vmcp's own working directory may hold vmcp.yaml: without `cwd` it is left out.
                    workspaces: cwd.iter().chain(&codex.workspaces).cloned().collect(),
                }),
            };
            let (mux, to_write) = mux::Mux::new(Arc::clone(&inbound), closed.clone(), limits.budget);
            let limits = stdio::ProcessLimits { line_bytes: limits.bytes, kill_grace: settings.kill_grace };
            let task = stdio::start(&program, limits, Arc::clone(&mux), to_write, closed.clone())?;
            Link::Duplex(Duplex::new(mux, task))
        }
    };
    Ok(Channel::new(link, inbound, facts, closed))
}

/// Opens another link to the server of `main`, for calls of `owner`: over HTTP one that uses the same
/// endpoint, else a stream or a process of its own.
pub(crate) async fn sibling(
    facts: &Facts,
    main: &Channel,
    owner: Owner,
    credentials: Option<SharedCredentials>,
) -> Result<Channel, LinkError> {
    let Link::Http(http) = &main.link else { return open(facts, owner, credentials).await };
    let closed = CancellationToken::new();
    let inbound = Arc::new(Inbound::new(facts, owner));
    let link = Link::Http(http.sibling(Arc::clone(&inbound), closed.clone(), credentials));
    Ok(Channel::new(link, inbound, facts, closed))
}
