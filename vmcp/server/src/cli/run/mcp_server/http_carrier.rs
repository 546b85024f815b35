//! [`HttpCarrier`]: carries the lines of one client to the Streamable HTTP endpoint of a server, in both
//! eras, and its answers back as lines.

mod exchange;
mod legacy_session;
mod param_headers;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::task::AbortOnDropHandle;
use vmcp_config::Secret;
use vmcp_wire::headers::{RequestEra, classify_stdio};
use vmcp_wire::methods;
use vmcp_wire::owned::{OwnedMessage, OwnedRequest};

use self::exchange::{ConnectionLost, Endpoint, Outgoing};

/// Exchanges under way at a time; a further request is refused. Other lines may end exchanges, so they pass.
const MAX_EXCHANGES: usize = 256;

/// A connection to an endpoint.
pub(super) struct HttpCarrier {
    endpoint: Arc<Endpoint>,
    exchanges: JoinSet<Result<(), ConnectionLost>>,
    /// Requests of modern clients that are under way, by id: the end of the exchange cancels one.
    modern: HashMap<Box<str>, ModernRequest>,
    /// Messages that the server of a legacy session pushes.
    push: Option<AbortOnDropHandle<()>>,
}

/// A request of a modern client that is under way.
struct ModernRequest {
    exchange: AbortHandle,
    /// True for `subscriptions/listen`, which waits as long as the client listens.
    is_listening: bool,
}

impl HttpCarrier {
    /// Prepares a connection to `url`; `incoming` takes the lines of the server.
    pub(super) fn new(
        url: String,
        token: Option<Secret>,
        incoming: mpsc::Sender<Bytes>,
    ) -> Result<HttpCarrier, String> {
        let endpoint =
            Endpoint::new(url, token, incoming).map_err(|error| format!("no HTTP client: {error}"))?;
        let (exchanges, modern) = (JoinSet::new(), HashMap::new());
        Ok(HttpCarrier { endpoint: Arc::new(endpoint), exchanges, modern, push: None })
    }

    /// Carries lines until the last one is answered, or the connection is lost: then their requests stay
    /// without an answer.
    pub(super) async fn run(mut self, mut lines: mpsc::Receiver<Bytes>) {
        let mut is_open = true;
        while is_open || !self.exchanges.is_empty() {
            tokio::select! {
                line = lines.recv(), if is_open => {
                    let Some(line) = line else {
                        is_open = false;
                        // Nothing else ends a subscription.
                        let listening = self.modern.values().filter(|request| request.is_listening);
                        listening.for_each(|request| request.exchange.abort());
                        continue;
                    };
                    if self.line(line).await.is_err() {
                        return;
                    }
                }
                Some(ended) = self.exchanges.join_next() => {
                    if matches!(ended, Ok(Err(ConnectionLost))) {
                        return;
                    }
                    self.modern.retain(|_, request| !request.exchange.is_finished());
                }
            }
        }
        self.push = None;
        self.endpoint.end_session().await;
    }

    async fn line(&mut self, line: Bytes) -> Result<(), ConnectionLost> {
        // The relay has refused everything else.
        let Ok(message) = OwnedMessage::parse(line.clone()) else { return Ok(()) };
        let era = classify_stdio(&message);
        match message {
            OwnedMessage::Request(request) => self.request(request, era.ok(), line).await,
            OwnedMessage::Notification(notification) => {
                let method = notification.method();
                let cancelled =
                    notification.params().get("requestId").filter(|_| method == methods::CANCELLED);
                if let Some(request) = cancelled.and_then(|id| self.modern.remove(id)) {
                    request.exchange.abort();
                    return Ok(());
                }
                if method == methods::INITIALIZED {
                    self.endpoint.exchange(Outgoing::message(line)).await?;
                    let endpoint = Arc::clone(&self.endpoint);
                    self.push = Some(AbortOnDropHandle::new(tokio::spawn(endpoint.receive_pushed())));
                    return Ok(());
                }
                self.spawn(Outgoing::message(line));
                Ok(())
            }
            OwnedMessage::Response(_) | OwnedMessage::Error(_) => {
                self.spawn(Outgoing::message(line));
                Ok(())
            }
        }
    }

    async fn request(
        &mut self,
        request: OwnedRequest,
        era: Option<RequestEra>,
        line: Bytes,
    ) -> Result<(), ConnectionLost> {
        if self.exchanges.len() >= MAX_EXCHANGES {
            let text = format!("{MAX_EXCHANGES} requests are under way");
            self.endpoint.say_refusal(&request, StatusCode::TOO_MANY_REQUESTS, text.as_bytes()).await;
            return Ok(());
        }
        let revision = match era {
            Some(RequestEra::Modern(revision)) => Some(revision),
            Some(RequestEra::Legacy(_)) | None => None,
        };
        let is_first = request.method() == methods::INITIALIZE;
        let is_listening = request.method() == methods::LISTEN;
        let id: Box<str> = request.id().get().into();
        let outgoing = Outgoing::request(line, request, revision);
        if is_first {
            // The lines behind it belong to its session.
            return self.endpoint.exchange(outgoing).await;
        }
        let exchange = self.spawn(outgoing);
        if revision.is_some() {
            self.modern.insert(id, ModernRequest { exchange, is_listening });
        }
        Ok(())
    }

    fn spawn(&mut self, outgoing: Outgoing) -> AbortHandle {
        let endpoint = Arc::clone(&self.endpoint);
        self.exchanges.spawn(async move { endpoint.exchange(outgoing).await })
    }
}

#[cfg(test)]
mod tests;
