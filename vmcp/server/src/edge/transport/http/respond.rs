//! HTTP responses: one JSON document if nothing precedes the answer, a stream of server-sent events from the
//! first message on.

use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, Stream};
use http_body::{Frame, SizeHint};
use tokio::time::timeout;
use vmcp_json::byte_rope::ByteRope;
use vmcp_wire::sse;

use crate::edge::request::conversation::{Conversation, ConversationItem};
use crate::edge::request::encoded_response::EncodedResponse;

/// Interval of keep-alive comments on a silent stream. Proxies close a silent connection after a minute or
/// less; this stays below half of the usual shortest limit.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);

/// An HTTP body of pieces whose total length is known.
struct PiecesBody(ByteRope);

impl http_body::Body for PiecesBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

/// Responds with one JSON document.
pub(super) fn json(response: EncodedResponse) -> Response {
    let status = StatusCode::from_u16(response.status).unwrap_or(StatusCode::OK);
    let body = Body::new(PiecesBody(response.body));
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}

/// Waits for the first item of the conversation. The answer becomes a JSON document; any other message begins
/// a stream.
pub(super) async fn json_or_stream(mut conversation: Conversation) -> Response {
    let first = match conversation.next().await {
        Some(ConversationItem::Answer(response)) => return json(response),
        Some(first) => first,
        None => return json(EncodedResponse::internal_error()),
    };
    let steps = stream::once(ready(first)).chain(conversation);
    event_stream(steps.map(|step| match step {
        ConversationItem::Message(message) => event(&message),
        ConversationItem::Answer(response) => event(&response.body.into_bytes()),
    }))
}

/// Responds with a stream of messages.
pub(super) fn stream(messages: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    event_stream(messages.map(|message| event(&message)))
}

/// Responds with server-sent events; the last header keeps nginx from buffering them.
fn event_stream(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(with_keep_alive(events, KEEP_ALIVE_INTERVAL).map(Ok::<_, Infallible>)))
        .into_response()
}

/// Yields the events, and a comment after each `interval` without one.
fn with_keep_alive(
    events: impl Stream<Item = Bytes> + Send + 'static,
    interval: Duration,
) -> impl Stream<Item = Bytes> + Send {
    stream::unfold(Box::pin(events), move |mut events| async move {
        match timeout(interval, events.next()).await {
            Ok(event) => event.map(|event| (event, events)),
            Err(_) => Some((Bytes::from_static(sse::KEEP_ALIVE), events)),
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
        assert_eq!(event, "event");
        assert!(!comments.is_empty() && comments.iter().all(|comment| comment == sse::KEEP_ALIVE));
    }
}
