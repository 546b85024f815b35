//! One live connection: how requests are written for its era, and what the server said about itself.

pub(crate) mod client_capabilities;
pub(crate) mod era;
pub(crate) mod log_level;

use std::sync::Arc;

use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_wire::era::{Era, Revision};

use crate::inbound::call_listener::CallListener;
use crate::request::{Request, RpcOutcome};
use crate::transport::{Channel, Link, LinkError};

/// What is known of the era before a link is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EraHint {
    /// Ask.
    Unknown,
    /// The last connection answered the question in a way that leaves no doubt.
    Legacy,
}

/// A connection after its handshake.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) channel: Arc<Channel>,
    pub(crate) server: Arc<ServerProfile>,
}

/// What a server said in `initialize` or `server/discover`.
#[derive(Debug)]
pub(crate) struct ServerProfile {
    pub(crate) revision: Revision,
    pub(crate) capabilities: Box<RawValue>,
    pub(crate) info: Option<Box<RawValue>>,
    pub(crate) instructions: Option<String>,
    /// Whether it takes a log level.
    pub(crate) logs: bool,
    /// What to try first when this connection has to be replaced.
    pub(crate) hint: EraHint,
}

impl ServerProfile {
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
        listener: &Arc<CallListener>,
    ) -> Result<RpcOutcome, LinkError> {
        self.channel.exchange(self.server.revision, request, Some(listener)).await
    }

    /// Sends a request of our own.
    pub(crate) async fn ask(&self, request: &Request<'_>) -> Result<RpcOutcome, LinkError> {
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
