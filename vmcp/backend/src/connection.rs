//! Connections after their handshake. [`era`] makes them; they carry the calls.

pub(crate) mod client_capabilities;
pub(crate) mod era;
pub(crate) mod log_level;
mod revision_choice;
mod session_check;
mod session_lifetime;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_wire::era::{Era, Revision};

use self::session_lifetime::SessionLifetime;
use crate::inbound::call_listener::CallListener;
use crate::policy::facts::Facts;
use crate::request::{Request, RpcOutcome};
use crate::transport::{Channel, Link, LinkError};

/// The era to expect before a link is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EraHint {
    /// Unknown: probe for it.
    Unknown,
    /// The last connection answered the probe in a way that leaves no doubt.
    Legacy,
    /// The last connection to the program was modern: it has the whole time of its start to answer the probe.
    Modern,
}

/// A connection after its handshake.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) channel: Arc<Channel>,
    pub(crate) server: Arc<ServerProfile>,
    /// The server has answered a request after the handshake.
    served: AtomicBool,
    /// Failures in a row that may have the session as their cause.
    failures: AtomicU32,
    /// Set when the connection is given up because the server ended its session.
    pub(crate) session_lost: AtomicBool,
    /// Set when a modern server has refused `initialize`.
    legacy_refused: AtomicBool,
    /// Set when a modern server was asked what it offers to legacy clients.
    pub(crate) legacy_asked: AtomicBool,
    _lifetime: Option<SessionLifetime>,
}

/// Facts that a server told in `initialize` or `server/discover`.
#[derive(Debug)]
pub(crate) struct ServerProfile {
    pub(crate) revision: Revision,
    pub(crate) capabilities: Box<RawValue>,
    pub(crate) info: Option<Box<RawValue>>,
    pub(crate) instructions: Option<String>,
    /// True if the server takes a log level.
    pub(crate) logs: bool,
    /// The era to try first when this connection has to be replaced.
    pub(crate) hint: EraHint,
}

impl ServerProfile {
    pub(crate) fn era(&self) -> Era {
        self.revision.era()
    }

    /// True if the capability is declared at all.
    pub(crate) fn declares(&self, capability: &str) -> bool {
        self.capability(capability).is_some()
    }

    /// True if the server promises to announce changes of the list.
    pub(crate) fn announces_changes(&self, capability: &str) -> bool {
        let declared = self.capability(capability).and_then(|declared| Object::parse(declared).ok());
        declared
            .and_then(|declared| declared.get("listChanged"))
            .is_some_and(|changed| changed.get() == "true")
    }

    /// True if resources can be subscribed to.
    pub(crate) fn takes_subscriptions(&self) -> bool {
        let resources = self.capability("resources").and_then(|declared| Object::parse(declared).ok());
        resources.is_some_and(|resources| resources.text("subscribe") == Some("true"))
    }

    fn capability(&self, name: &str) -> Option<&RawValue> {
        Object::parse(&self.capabilities).ok()?.get(name).filter(|value| value.get() != "null")
    }
}

impl Connection {
    pub(crate) fn new(facts: &Facts, channel: Channel, server: Arc<ServerProfile>) -> Self {
        // Clients that share a connection without a session have nothing in common, and no cookies either.
        if let Link::Http(http) = &channel.link
            && !(http.has_session() || channel.inbound.owner().is_one())
        {
            http.refuse_cookies();
        }
        Self {
            channel: Arc::new(channel),
            _lifetime: SessionLifetime::begin(facts, server.revision),
            server,
            served: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            session_lost: AtomicBool::new(false),
            legacy_refused: AtomicBool::new(false),
            legacy_asked: AtomicBool::new(false),
        }
    }

    /// Sends a caller's request. Dropping the future cancels it at the backend.
    pub(crate) async fn call(
        &self,
        request: &Request<'_>,
        listener: &Arc<CallListener>,
    ) -> Result<RpcOutcome, LinkError> {
        self.exchange(request, Some(listener)).await
    }

    /// Sends a request of vmcp's own.
    pub(crate) async fn ask(&self, request: &Request<'_>) -> Result<RpcOutcome, LinkError> {
        self.exchange(request, None).await
    }

    async fn exchange(
        &self,
        request: &Request<'_>,
        listener: Option<&Arc<CallListener>>,
    ) -> Result<RpcOutcome, LinkError> {
        // Boxed: rare checks, whose state every exchange would else carry.
        match self.channel.exchange(self.server.revision, request, listener).await {
            Err(error) => Box::pin(self.decide(error, request)).await,
            Ok(RpcOutcome::Error(error)) => Box::pin(self.decide_refused(error, request)).await,
            answered => {
                self.serve();
                answered
            }
        }
    }

    /// Records that the server has served a request.
    fn serve(&self) {
        self.served.store(true, Ordering::Relaxed);
        self.failures.store(0, Ordering::Relaxed);
    }

    /// True if the server knows the connection by a session id, which it may forget.
    fn can_lose_session(&self) -> bool {
        self.server.era() == Era::Legacy
            && matches!(&self.channel.link, Link::Http(http) if http.has_session())
    }

    /// True if the connection began with a handshake that a restarted server has not seen.
    fn is_initialized(&self) -> bool {
        self.server.era() == Era::Legacy && matches!(self.channel.link, Link::Http(_))
    }

    /// True if the connection ended only because its server forgot a session that had served: no crash, and
    /// nothing that callers of others should wait out a pause for.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.session_lost.load(Ordering::Relaxed) && self.served.load(Ordering::Relaxed)
    }

    /// True if the server is of the legacy era and may keep state for the client of a connection: over HTTP
    /// it hands out session ids then; a process and an event stream have one client by specification.
    pub(crate) fn keeps_state(&self) -> bool {
        match &self.channel.link {
            Link::Http(http) => http.has_session(),
            Link::Duplex(_) => self.server.era() == Era::Legacy,
        }
    }

    /// True if another connection can be told from this one by the server.
    pub(crate) fn can_be_isolated(&self) -> bool {
        match &self.channel.link {
            Link::Http(http) => http.has_session(),
            Link::Duplex(_) => true,
        }
    }

    /// True if a change of the definitions would be announced, and the announcement heard.
    pub(crate) fn hears_changes(&self) -> bool {
        let is_open = match &self.channel.link {
            Link::Duplex(_) if self.server.era() == Era::Legacy => true,
            Link::Duplex(_) | Link::Http(_) => self.channel.is_listening.load(Ordering::Relaxed),
        };
        is_open && self.server.announces_changes("tools")
    }

    /// True if the server is known to speak the modern era only.
    pub(crate) fn refuses_legacy(&self) -> bool {
        self.legacy_refused.load(Ordering::Relaxed)
    }

    /// Records that a modern server does not answer `initialize`.
    pub(crate) fn set_refuses_legacy(&self) {
        self.legacy_refused.store(true, Ordering::Relaxed);
    }

    /// Closes the connection and waits until the server was told.
    pub(crate) async fn close(&self) {
        self.channel.closed.cancel();
        self.channel.link.close().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Tasks that listen hold the channel, whose own drop may come late.
        self.channel.closed.cancel();
    }
}
