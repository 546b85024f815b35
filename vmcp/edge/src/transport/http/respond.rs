//! HTTP responses: one JSON document if nothing precedes the answer, a stream of server-sent events from the
//! first message on.

use std::future::ready;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::Either;
use futures::stream::{self, Stream};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use tokio::time::timeout;
use vmcp_json::byte_rope::ByteRope;
use vmcp_wire::sse;

use super::arriving_event;
use super::call_streams::{LiveEvents, Step};
use super::client_body::ClientBody;
use super::exchange::Response;
use crate::request::arriving_response::BrokenOff;
use crate::request::conversation::{Conversation, ConversationItem};
use crate::request::encoded_response::EncodedResponse;

/// Interval of keep-alive comments on a silent stream. Proxies close a silent connection after a minute or
/// less; this stays below half of the usual shortest limit.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
/// Keeps nginx from buffering a stream.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const NO: HeaderValue = HeaderValue::from_static("no");
const METHODS: HeaderValue = HeaderValue::from_static("POST, GET, DELETE, OPTIONS");

/// Responds without a body.
pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::default();
    *response.status_mut() = status;
    response
}

/// Responds with the methods that are served.
pub(crate) fn methods(status: StatusCode) -> Response {
    let mut response = empty(status);
    response.headers_mut().insert(header::ALLOW, METHODS);
    response
}

/// Responds with words for people.
pub(crate) fn text(status: StatusCode, words: &'static str) -> Response {
    with_content(status, TEXT, ClientBody::from_content(words))
}

/// Responds with one JSON document.
pub(crate) fn json(response: EncodedResponse) -> Response {
    let status = StatusCode::from_u16(response.status).unwrap_or(StatusCode::OK);
    let challenge = response.challenge;
    let mut response = match response.rest {
        None => json_text(status, response.body),
        Some(rest) => with_content(status, JSON, ClientBody::arriving(response.body, rest)),
    };
    if let Some(challenge) = challenge {
        // The head of the request, which the header depends on, is known further up.
        response.extensions_mut().insert(*challenge);
    }
    response
}

/// Responds with the text of a JSON document.
pub(crate) fn json_text(status: StatusCode, body: impl Into<ByteRope>) -> Response {
    with_content(status, JSON, ClientBody::from_content(body))
}

/// Returns a document of strings, numbers and raw JSON, which always serialize.
pub(crate) fn document(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_string(body) {
        Ok(text) => json_text(status, text),
        Err(_) => empty(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

fn with_content(status: StatusCode, kind: HeaderValue, body: ClientBody) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Waits for the first item of the conversation. The answer becomes a JSON document; any other message begins
/// a stream.
pub(crate) async fn json_or_stream(mut conversation: Conversation) -> Response {
    match conversation.next().await {
        Some(ConversationItem::Answer(response)) => json(response),
        Some(ConversationItem::Message(first)) => events(Some(first), conversation),
        None => json(EncodedResponse::internal_error()),
    }
}

/// Responds with a stream of `first` and what follows.
pub(crate) fn events(first: Option<Vec<u8>>, conversation: Conversation) -> Response {
    let steps = stream::iter(first).map(ConversationItem::Message).chain(conversation);
    // Keep-alives come between events, never within one.
    let events = with_keep_alive(steps, KEEP_ALIVE_INTERVAL).flat_map(|step| match step {
        None => Either::Left(one(Bytes::from_static(sse::KEEP_ALIVE))),
        Some(ConversationItem::Message(message)) => Either::Left(one(event(&message))),
        Some(ConversationItem::Answer(EncodedResponse { body, rest: None, .. })) => {
            Either::Left(one(event(&body.into_bytes())))
        }
        Some(ConversationItem::Answer(EncodedResponse { body, rest: Some(rest), .. })) => {
            Either::Right(arriving_event::arriving_event(None, body, rest.into_pieces()))
        }
    });
    event_stream(ClientBody::events(events))
}

/// Responds with the stream of a call that can be resumed; `begin` are the events before it.
pub(crate) fn resumable(begin: Vec<Bytes>, call: LiveEvents) -> Response {
    let steps = stream::iter(begin).map(Step::Event).chain(call);
    let events = with_keep_alive(steps, KEEP_ALIVE_INTERVAL).flat_map(|step| match step {
        None => Either::Left(one(Bytes::from_static(sse::KEEP_ALIVE))),
        Some(Step::Event(event)) => Either::Left(one(event)),
        Some(Step::Arriving(id, body, rest)) => {
            Either::Right(arriving_event::arriving_event(Some(&id), body, rest))
        }
    });
    event_stream(ClientBody::events(events))
}

/// Responds with a stream of events that are encoded already.
pub(crate) fn resumed(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let events = with_keep_alive(events, KEEP_ALIVE_INTERVAL)
        .map(|event| event.unwrap_or_else(|| Bytes::from_static(sse::KEEP_ALIVE)));
    event_stream(ClientBody::pushed_events(events))
}

fn one(event: Bytes) -> impl Stream<Item = Result<Bytes, BrokenOff>> {
    stream::once(ready(Ok(event)))
}

/// Responds with a stream of messages that belong to no call.
pub(crate) fn stream(messages: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let events = with_keep_alive(messages, KEEP_ALIVE_INTERVAL).map(|message| match message {
        Some(message) => event(&message),
        None => Bytes::from_static(sse::KEEP_ALIVE),
    });
    event_stream(ClientBody::pushed_events(events))
}

/// True for a response of server-sent events.
pub(crate) fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes() == b"text/event-stream")
}

/// Responds with server-sent events.
fn event_stream(events: ClientBody) -> Response {
    let mut response = Response::new(events);
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, EVENTS);
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    headers.insert(ACCEL_BUFFERING, NO);
    response
}

/// Yields the items, and `None` after each `interval` without one.
fn with_keep_alive<T>(
    items: impl Stream<Item = T> + Send + 'static,
    interval: Duration,
) -> impl Stream<Item = Option<T>> + Send {
    stream::unfold(Box::pin(items), move |mut items| async move {
        match timeout(interval, items.next()).await {
            Ok(item) => item.map(|item| (Some(item), items)),
            Err(_) => Some((None, items)),
        }
    })
}

/// Encodes a message as a server-sent event.
fn event(message: &[u8]) -> Bytes {
    // Every message was built from text, so nothing is replaced here.
    Bytes::from(sse::encode(None, None, &String::from_utf8_lossy(message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_silent_stream_is_kept_alive_and_its_events_are_not_lost() {
        let late = stream::once(async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            Bytes::from_static(b"event")
        });
        let sent: Vec<_> = with_keep_alive(late, Duration::from_millis(20)).collect().await;
        let (event, comments) = sent.split_last().unwrap();
        assert_eq!(event.as_deref(), Some("event".as_bytes()));
        assert!(!comments.is_empty() && comments.iter().all(Option::is_none));
    }
}
