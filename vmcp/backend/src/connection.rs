//! One live connection: how requests are written for its era, and what the server said about itself.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use vmcp_json::object::Object;
use vmcp_wire::era::{Era, Revision};
use vmcp_wire::keys::{INPUT_RESPONSES, REQUEST_STATE};
use vmcp_wire::meta::{self, META, ProgressToken, Stamp};
use vmcp_wire::params::Params;
use vmcp_wire::{methods, rpc};

use crate::era::Hint;
use crate::error::LinkError;
use crate::inbound::Inbound;
use crate::listener::Listener;
use crate::request::{Outcome, Request};
use crate::transport::{Link, Outgoing};

/// A connection after its handshake.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) channel: Arc<Channel>,
    pub(crate) server: Arc<Server>,
}

/// A link and what is needed to write requests for it.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) link: Link,
    pub(crate) inbound: Arc<Inbound>,
    /// `clientInfo` of ours, as JSON.
    pub(crate) client_info: String,
    /// Cancelled when the link is of no further use, and to end it.
    pub(crate) closed: CancellationToken,
}

/// What a server said in `initialize` or `server/discover`.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) revision: Revision,
    pub(crate) capabilities: Box<RawValue>,
    pub(crate) info: Option<Box<RawValue>>,
    pub(crate) instructions: Option<String>,
    /// Whether it takes a log level.
    pub(crate) logs: bool,
    /// What to try first when this connection has to be replaced.
    pub(crate) hint: Hint,
}

impl Server {
    pub(crate) fn era(&self) -> Era {
        self.revision.era()
    }

    /// Whether a capability is declared at all.
    pub(crate) fn declares(&self, capability: &str) -> bool {
        self.capability(capability).is_some()
    }

    /// Whether the server promises to say when the list changes.
    pub(crate) fn announces_changes(&self, capability: &str) -> bool {
        let declared = self.capability(capability).and_then(|declared| Object::parse(declared).ok());
        declared
            .and_then(|declared| declared.get("listChanged"))
            .is_some_and(|changed| changed.get() == "true")
    }

    /// Whether resources can be subscribed to.
    pub(crate) fn takes_subscriptions(&self) -> bool {
        let resources = self.capability("resources").and_then(|declared| Object::parse(declared).ok());
        resources.is_some_and(|resources| resources.text("subscribe") == Some("true"))
    }

    fn capability(&self, name: &str) -> Option<&RawValue> {
        Object::parse(&self.capabilities).ok()?.get(name).filter(|value| value.get() != "null")
    }
}

impl Connection {
    /// Sends a caller's request. Dropping the future cancels it at the backend.
    pub(crate) async fn call(
        &self,
        request: &Request<'_>,
        listener: &Arc<Listener>,
    ) -> Result<Outcome, LinkError> {
        self.channel.exchange(self.server.revision, request, Some(listener)).await
    }

    /// Sends a request of our own.
    pub(crate) async fn ask(&self, request: &Request<'_>) -> Result<Outcome, LinkError> {
        self.channel.exchange(self.server.revision, request, None).await
    }

    /// Whether the server tells sessions apart, and may keep state in each.
    pub(crate) fn keeps_state(&self) -> bool {
        matches!(&self.channel.link, Link::Http(http) if http.has_session())
    }

    /// Ends the connection politely and waits for that.
    pub(crate) async fn close(&self) {
        self.channel.closed.cancel();
        self.channel.link.close().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Tasks that listen hold the channel, so its own end may be late.
        self.channel.closed.cancel();
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

impl Channel {
    pub(crate) async fn exchange(
        &self,
        revision: Revision,
        request: &Request<'_>,
        listener: Option<&Arc<Listener>>,
    ) -> Result<Outcome, LinkError> {
        let id = self.inbound.next_id();
        let params =
            Params::parse(Some(request.params)).map_err(|error| LinkError::Unsendable(error.to_string()))?;
        let token = params.meta.progress_token();
        let ours = id.to_string();
        let outgoing = meta::Outgoing {
            stamp: self.stamp(revision, request),
            progress_token: token.map_or(ProgressToken::Keep, |_| ProgressToken::Replace(&ours)),
            trace: request.trace.clone(),
        };
        let meta = outgoing.edit(&params.meta);
        let mut edit = params.object.edit();
        if meta.is_empty() {
            edit.remove(META);
        } else if !meta.is_unchanged() {
            edit.set(META, meta.finish());
        }
        match revision.era() {
            // These are for modern servers.
            Era::Legacy if methods::may_require_input(request.method) => {
                edit.remove(INPUT_RESPONSES).remove(REQUEST_STATE);
            }
            // Asks for a task by the rules of 2025-11-25; the modern extension leaves that to the server.
            Era::Modern if request.method == methods::TOOLS_CALL => _ = edit.remove("task"),
            _ => {}
        }
        let message = Bytes::from(rpc::request(id, request.method, Some(edit.finish())));
        // A legacy server may ask meanwhile, and whom it asks depends on all who have calls under way.
        let heard = |listener: &&Arc<Listener>| {
            token.is_some() || listener.events.is_some() || revision.era() == Era::Legacy
        };
        let listener = listener.filter(heard).map(Arc::clone);
        let _route = listener.map(|listener| self.inbound.route(id, token.map(ToOwned::to_owned), listener));
        self.link.exchange(Outgoing { id, message, request, revision }).await
    }

    /// What the era wants in `_meta`.
    fn stamp<'a>(&'a self, revision: Revision, request: &'a Request<'_>) -> Stamp<'a> {
        match revision.era() {
            Era::Legacy => Stamp::Legacy,
            Era::Modern => Stamp::Modern {
                revision,
                client_info: Some(request.client.info.as_deref().map_or(&self.client_info, RawValue::get)),
                client_capabilities: request.client.capabilities.as_deref().map_or("{}", RawValue::get),
                log_level: request.client.log_level.as_deref(),
            },
        }
    }
}

/// `{}`.
pub(crate) fn empty_object() -> &'static RawValue {
    // `null` cannot happen, and would be refused by whoever reads it.
    serde_json::from_str("{}").unwrap_or(RawValue::NULL)
}
