//! The links to a backend: streamable HTTP, and two-way streams (stdio, HTTP+SSE) behind one multiplexer.

mod body;
pub mod client;
mod endpoint;
pub(crate) mod http;
pub(crate) mod mux;
pub(crate) mod sse;
pub(crate) mod stdio;

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use vmcp_config::Transport;
use vmcp_json::text;
use vmcp_wire::era::Revision;

use crate::connection::{Channel, Connection};
use crate::error::LinkError;
use crate::inbound::{Inbound, Owner};
use crate::request::{Outcome, Request};
use crate::shared::Shared;
use crate::transport::endpoint::Endpoint;

/// A request on its way out.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) id: u64,
    /// The whole JSON-RPC message.
    pub(crate) message: Bytes,
    /// What the headers are made from.
    pub(crate) request: &'a Request<'a>,
    pub(crate) revision: Revision,
}

#[derive(Debug)]
pub(crate) enum Link {
    Http(http::Http),
    Duplex(Duplex),
}

/// A two-way stream and the task that reads it; the task ends after the connection's `closed` token is cancelled.
#[derive(Debug)]
pub(crate) struct Duplex {
    pub(crate) mux: Arc<mux::Mux>,
    task: Mutex<JoinHandle<()>>,
}

impl Duplex {
    fn new(mux: Arc<mux::Mux>, task: JoinHandle<()>) -> Self {
        Self { mux, task: Mutex::new(task) }
    }
}

impl Link {
    /// Sends a request and waits for its answer. Dropping the future tells the backend to stop.
    pub(crate) async fn exchange(&self, request: Outgoing<'_>) -> Result<Outcome, LinkError> {
        match self {
            Self::Http(http) => http.exchange(request).await,
            Self::Duplex(duplex) => duplex.mux.exchange(request).await,
        }
    }

    pub(crate) async fn notify(&self, message: Bytes) -> Result<(), LinkError> {
        match self {
            Self::Http(http) => http.notify(message).await,
            Self::Duplex(duplex) => duplex.mux.notify(message).await,
        }
    }

    /// Why a two-way stream ended by itself, if it did.
    pub(crate) fn end_reason(&self) -> Option<String> {
        match self {
            Self::Http(_) => None,
            Self::Duplex(duplex) => duplex.mux.ended(),
        }
    }

    /// Waits for the end of a link whose `closed` token has been cancelled.
    pub(crate) async fn close(&self) {
        match self {
            Self::Http(http) => http.close().await,
            Self::Duplex(duplex) => drop((&mut *duplex.task.lock().await).await),
        }
    }
}

/// Opens a link, without any handshake.
pub(crate) async fn open(shared: &Shared) -> Result<Channel, LinkError> {
    let settings = &shared.settings;
    let closed = CancellationToken::new();
    let inbound = Arc::new(Inbound::new(shared, None));
    let limit = settings.max_message_bytes;
    let link = match &shared.spec.transport {
        Transport::Http { url, headers } => {
            let endpoint = Endpoint::new(settings.http.clone(), url, headers)?;
            Link::Http(http::Http::new(endpoint, Arc::clone(&inbound), limit, closed.clone()))
        }
        Transport::Sse { url, headers } => {
            let endpoint = Endpoint::new(settings.http.clone(), url, headers)?;
            let (mux, to_write) = mux::Mux::new(Arc::clone(&inbound), closed.clone());
            let task = sse::start(endpoint, url, limit, Arc::clone(&mux), to_write, closed.clone()).await?;
            Link::Duplex(Duplex::new(mux, task))
        }
        Transport::Stdio { command, args, env, cwd } => {
            let in_our_place = settings.in_our_place;
            let program = stdio::Program { command, args, env, cwd: cwd.as_deref(), in_our_place };
            let limits = stdio::Limits { line_bytes: limit, kill_grace: settings.kill_grace };
            let (mux, to_write) = mux::Mux::new(Arc::clone(&inbound), closed.clone());
            let task = stdio::start(&program, limits, Arc::clone(&mux), to_write, closed.clone())?;
            Link::Duplex(Duplex::new(mux, task))
        }
    };
    Ok(Channel { link, inbound, client_info: client_info(shared), closed })
}

/// Another session at the server of `main`.
pub(crate) fn sibling(shared: &Shared, main: &Connection, owner: Owner) -> Result<Channel, LinkError> {
    let Link::Http(http) = &main.channel.link else {
        return Err(LinkError::Unsendable("this transport has no sessions".to_owned()));
    };
    let closed = CancellationToken::new();
    let inbound = Arc::new(Inbound::new(shared, Some(owner)));
    let link = Link::Http(http.sibling(Arc::clone(&inbound), closed.clone()));
    Ok(Channel { link, inbound, client_info: client_info(shared), closed })
}

fn client_info(shared: &Shared) -> String {
    format!(r#"{{"name":"vmcp","version":{}}}"#, text::quoted(&shared.settings.client_version))
}
