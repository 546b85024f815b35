//! Follows a legacy server's GET stream, and answers the requests that come on it or on the stream of a call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderValue;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use vmcp_wire::envelope::{Message, Request};
use vmcp_wire::payload;

use super::Http;
use super::headers::LAST_EVENT;
use super::receive::MAX_BATCH;
use crate::inbound::Reaction;
use crate::policy::backoff;
use crate::transport::body::{Event, Events};
use crate::transport::endpoint::{SentProof, is_event_stream};
use crate::transport::link_error::LinkError;

/// Base of the pause before a stream is opened again, and the longest that a server may set with `retry:`.
const REOPEN_BASE: Duration = Duration::from_secs(1);
const MAX_REOPEN_PAUSE: Duration = Duration::from_secs(30);
/// Lifetime from which a stream counts as stable; a shorter one is reopened with exponential backoff.
const MIN_STABLE_LIFETIME: Duration = Duration::from_secs(30);
/// Time for a server to accept an answer; then the answer is dropped.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Answers that travel side by side. A server that asks more waits until one is accepted (backpressure).
pub(super) const MAX_ANSWERS: usize = 16;

/// The id of the last event, after which a broken stream continues.
type LastEvent = Option<HeaderValue>;

impl Http {
    /// Follows the stream on which a legacy server sends messages that belong to no request, until the
    /// connection ends. Most servers have none and say so at once. `first` is dropped once the server has
    /// answered; `missed` is called when an announcement may have been lost.
    pub(crate) async fn follow(&self, first: oneshot::Sender<()>, missed: impl Fn()) {
        let mut first = Some(first);
        let mut failures = 0;
        let mut opened = false;
        let mut last_event = LastEvent::None;
        loop {
            let since = Instant::now();
            let mut pause = None;
            let mut headers = self.session_headers();
            if let Some(last) = &last_event {
                headers.insert(LAST_EVENT, last.clone());
            }
            let response = self.0.endpoint.get_events(headers).await;
            first.take();
            match response {
                Ok(response) if response.status().is_success() && is_event_stream(response.headers()) => {
                    // A stream that continues after its last event has missed nothing.
                    if opened && last_event.is_none() {
                        missed();
                    }
                    opened = true;
                    let (mut head, body) = response.into_parts();
                    let proof = head.extensions.remove();
                    let mut events = Events::new(body, &self.0.limits);
                    self.read(&mut events, &mut last_event, proof.as_ref()).await;
                    pause = events.retry();
                }
                Ok(_) if !opened => return,
                // The server was restarted, or is gone: the connector finds out which.
                Ok(response) if response.status() == StatusCode::NOT_FOUND => return self.0.closed.cancel(),
                Err(LinkError::Connect { .. }) if !self.is_owned() => return self.0.closed.cancel(),
                // The server may have forgotten the event; the next stream starts afresh.
                Ok(_) => last_event = None,
                Err(_) => {}
            }
            failures = if since.elapsed() < MIN_STABLE_LIFETIME { failures + 1 } else { 1 };
            let wanted = pause.unwrap_or_default().min(MAX_REOPEN_PAUSE);
            sleep(backoff::delay(REOPEN_BASE, failures).max(wanted)).await;
        }
    }

    /// True for a session of clients' own, which may live on at a server that cannot be reached for a while.
    fn is_owned(&self) -> bool {
        self.0.inbound.owner().is_one()
    }

    async fn read(&self, events: &mut Events, last_event: &mut LastEvent, proof: Option<&SentProof>) {
        loop {
            match events.next().await {
                Ok(Some(event)) => {
                    if let Some(id) = &event.id {
                        *last_event = HeaderValue::from_str(id).ok().filter(|id| !id.is_empty());
                    }
                    self.handle_unsolicited(&event, proof).await;
                }
                Ok(None) => return,
                Err(error @ LinkError::Flood { .. }) => return self.0.inbound.floods.record(&error.detail()),
                Err(error) => return tracing::debug!(error = error.detail(), "the GET stream broke"),
            }
        }
    }

    async fn handle_unsolicited(&self, event: &Event, proof: Option<&SentProof>) {
        let bytes = &*event.data;
        // Some servers begin with an event that has an id and nothing else.
        if bytes.is_empty() {
            return;
        }
        match Message::parse(bytes) {
            Ok(Message::Notification(notification)) => {
                if let Some(delivery) = self.0.inbound.notification(&notification, bytes, None) {
                    delivery.try_send();
                }
            }
            Ok(Message::Request(request)) => self.handle_request(&request, None).await,
            Ok(Message::Response(_) | Message::Error(_)) => {
                tracing::debug!("ignored an event that is neither notification nor request");
            }
            Err(_) => match payload::batch(bytes) {
                Some(messages) => {
                    for message in messages.into_iter().take(MAX_BATCH) {
                        let data = Bytes::copy_from_slice(message.get().as_bytes());
                        let event = Event { name: None, data, id: None };
                        // Boxed: a batch may hold no batches, and the compiler cannot know.
                        Box::pin(self.handle_unsolicited(&event, proof)).await;
                    }
                }
                None => drop(self.skip(event.name.as_deref(), bytes, proof)),
            },
        }
    }

    /// Takes a request of the server's; `of` is the request of ours on whose stream it came. The answer is
    /// awaited in a task: the reader must go on.
    pub(super) async fn handle_request(&self, request: &Request<'_>, of: Option<u64>) {
        match self.0.inbound.request(request, of) {
            Reaction::Answer(message) => self.send_answer(message).await,
            Reaction::Ask(delivery, waiting) => {
                match delivery {
                    Some(delivery) if of.is_some() => delivery.send().await,
                    Some(delivery) => delivery.try_send(),
                    None => {}
                }
                let http = self.clone();
                let answer = async move {
                    if let Some(message) = waiting.answer().await {
                        http.post_answer(message).await;
                    }
                };
                tokio::spawn(self.0.closed.clone().run_until_cancelled_owned(answer));
            }
            Reaction::Ignore => {}
        }
    }

    async fn send_answer(&self, message: Bytes) {
        match Arc::clone(&self.0.answers).try_acquire_owned() {
            Ok(permit) => {
                let http = self.clone();
                tokio::spawn(async move {
                    http.post_answer(message).await;
                    drop(permit);
                });
            }
            Err(_) => self.post_answer(message).await,
        }
    }

    async fn post_answer(&self, message: Bytes) {
        match timeout(ANSWER_TIMEOUT, self.notify(message)).await {
            Ok(Ok(())) => {}
            // A backend can cause any number of these: not worth more than a debug line each.
            Ok(Err(error)) => tracing::debug!(error = error.detail(), "an answer did not reach the backend"),
            Err(_) => tracing::debug!("the backend did not accept an answer in time"),
        }
    }
}
