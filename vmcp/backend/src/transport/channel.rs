//! Writes requests for a backend's era and sends them over its link.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use vmcp_json::decimal::Decimal;
use vmcp_json::text;
use vmcp_wire::era::{Era, Revision};
use vmcp_wire::level::Level;
use vmcp_wire::methods;
use vmcp_wire::request_meta::{ProgressToken, RequestMeta, Stamp};
use vmcp_wire::translate::{self, RequestPlan};

use crate::inbound::Inbound;
use crate::inbound::call_listener::CallListener;
use crate::policy::facts::Facts;
use crate::request::{Request, RpcOutcome};
use crate::transport::link::Link;
use crate::transport::link_error::{LinkError, Secrets, ServerWords};
use crate::transport::prepared_request::PreparedRequest;

/// Told the JSON-RPC id of each request to a backend.
static REQUEST_ID_OBSERVER: OnceLock<fn(u64)> = OnceLock::new();

/// Sets the observer of the ids of requests, which runs on the thread and within the task that sends. The
/// first one of the process stays.
pub fn observe_request_ids(observer: fn(u64)) {
    // A second exporter of traces, in tests, has the same observer.
    let _ = REQUEST_ID_OBSERVER.set(observer);
}

/// A [`Link`], the messages that come in on it, and the facts from which its requests are written.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) link: Link,
    pub(crate) inbound: Arc<Inbound>,
    /// vmcp's own `clientInfo`, as JSON.
    pub(crate) client_info: String,
    /// Cancelled once the link is dead; cancel it to close the link.
    pub(crate) closed: CancellationToken,
    /// The stream that brings announcements is open.
    pub(crate) is_listening: AtomicBool,
}

/// The log level of a request to a modern server, which sends no log messages without. A legacy client that
/// set none leaves the choice to the server; its choice is `info` there.
fn log_level<'a>(request: &'a Request<'_>) -> Option<&'a str> {
    let default = request.session.is_some().then_some(Level::Info.as_str());
    request.client.log_level.as_deref().or(default)
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

impl Channel {
    /// A channel over a link that was just opened, until `closed`.
    pub(super) fn new(link: Link, inbound: Arc<Inbound>, facts: &Facts, closed: CancellationToken) -> Self {
        let version = text::quoted(&facts.settings().client_version);
        let client_info = format!(r#"{{"name":"vmcp","version":{version}}}"#);
        Self { link, inbound, client_info, closed, is_listening: AtomicBool::new(false) }
    }

    pub(crate) async fn exchange(
        &self,
        revision: Revision,
        request: &Request<'_>,
        listener: Option<&Arc<CallListener>>,
    ) -> Result<RpcOutcome, LinkError> {
        let id = self.inbound.next_id();
        let token = request.params.meta().progress_token();
        // Progress keeps a long call alive, also for a client that does not want to hear of it.
        let is_long =
            listener.is_some_and(|listener| !listener.ours) && methods::may_require_input(request.method);
        let wants_progress = token.is_some() || is_long;
        let ours = Decimal::new(id);
        // A ping of vmcp's own within an exchange has another id, and no listener.
        if listener.is_some()
            && let Some(observe) = REQUEST_ID_OBSERVER.get()
        {
            observe(id);
        }
        let plan = RequestPlan {
            subject: request.subject,
            meta: RequestMeta {
                stamp: self.stamp(revision, request),
                // Tokens of different clients may be equal; our own ids are not.
                progress_token: if wants_progress {
                    ProgressToken::Replace(ours.as_str())
                } else {
                    ProgressToken::Keep
                },
                trace: request.trace.borrowed(),
            },
        };
        let message = Bytes::from(translate::write_request(id, request.method, request.params, &plan));
        // Every call on a legacy link is routed, even one that can take no events: only the set of all calls
        // under way tells whose client the server may ask.
        let heard = |listener: &&Arc<CallListener>| {
            wants_progress || listener.events.is_some() || revision.era() == Era::Legacy
        };
        let session = listener.and_then(|listener| listener.session);
        let listener = listener.filter(heard).map(Arc::clone);
        let token = token.and_then(|token| RawValue::from_string(token.to_owned()).ok());
        let route = listener.map(|listener| self.inbound.route(id, token, listener));
        let mut outcome = self.link.exchange(PreparedRequest { id, message, request, revision }).await?;
        if let RpcOutcome::Arriving(arriving) = &mut outcome {
            arriving.keep(route);
        }
        if let (Some(session), Era::Legacy) = (session, revision.era()) {
            self.inbound.learn_outcome(session, request, &outcome);
        }
        Ok(outcome)
    }

    /// Returns the beginning of the server's words, without the secrets that it was sent.
    pub(crate) fn words(&self, bytes: &[u8]) -> ServerWords {
        match &self.link {
            Link::Http(http) => http.words(bytes, None),
            Link::Duplex(_) => ServerWords::new(bytes, &Secrets::new(self.inbound.secrets.load_full())),
        }
    }

    /// The reserved `_meta` keys that the era wants.
    fn stamp<'a>(&'a self, revision: Revision, request: &'a Request<'_>) -> Stamp<'a> {
        match revision.era() {
            Era::Legacy => Stamp::Legacy,
            Era::Modern => Stamp::Modern {
                revision,
                client_info: Some(request.client.info.as_deref().map_or(&self.client_info, RawValue::get)),
                client_capabilities: request.client.capabilities.as_deref().map_or("{}", RawValue::get),
                log_level: log_level(request),
            },
        }
    }
}
