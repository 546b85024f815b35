//! Answers: one JSON document when nothing precedes it, a stream of events from the first notification on.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, Stream};
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;
use vmcp_backend::Event;
use vmcp_wire::era::Era;
use vmcp_wire::pieces::Pieces;
use vmcp_wire::sse;

use crate::edge::dispatch::Handled;
use crate::edge::streams::Item;
use crate::edge::translated;

type Notifications = mpsc::Receiver<Event>;

/// A document in pieces; its length is known.
struct Whole(Pieces);

impl http_body::Body for Whole {
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

pub(super) fn json(handled: Handled) -> Response {
    let status = StatusCode::from_u16(handled.status).unwrap_or(StatusCode::OK);
    let body = Body::new(Whole(handled.body));
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}

/// Waits for the answer or for the first notification, whichever comes first.
pub(super) async fn json_or_stream<W>(work: W, mut notifications: Notifications, era: Era) -> Response
where
    W: Future<Output = Handled> + Send + 'static,
{
    let mut work = Box::pin(work);
    let first = tokio::select! {
        biased;
        handled = &mut work => match notifications.try_recv() {
            // Sent just before the answer: it must arrive before it too.
            Ok(first) => return events(Running { work: None, answer: Some(handled), notifications, first: Some(first), era }),
            Err(_) => return json(handled),
        },
        Some(first) = notifications.recv() => first,
    };
    events(Running { work: Some(work), answer: None, notifications, first: Some(first), era })
}

struct Running {
    work: Option<Pin<Box<dyn Future<Output = Handled> + Send>>>,
    answer: Option<Handled>,
    notifications: Notifications,
    first: Option<Event>,
    era: Era,
}

impl Running {
    /// The next event: notifications in order, then the answer.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(notification(&first, self.era));
        }
        if let Some(work) = &mut self.work {
            tokio::select! {
                biased;
                Some(next) = self.notifications.recv() => return Some(notification(&next, self.era)),
                handled = work => {
                    self.answer = Some(handled);
                    self.work = None;
                }
            }
        }
        if let Ok(next) = self.notifications.try_recv() {
            return Some(notification(&next, self.era));
        }
        self.answer.take().map(|handled| event(&handled.body.into_bytes()))
    }
}

fn events(running: Running) -> Response {
    event_stream(stream::unfold(running, |mut running| async move {
        running.next().await.map(|event| (event, running))
    }))
}

/// A stream of changes.
pub(super) fn stream(items: impl Stream<Item = Item> + Send + 'static) -> Response {
    event_stream(items.map(|item| match item {
        Item::Message(message) => event(&message),
        Item::KeepAlive => Bytes::from_static(sse::KEEP_ALIVE),
    }))
}

fn event_stream(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(events.map(Ok::<_, Infallible>))).into_response()
}

fn event(message: &[u8]) -> Bytes {
    // Every message was built from text.
    Bytes::from(sse::encode(None, None, &String::from_utf8_lossy(message)))
}

/// A backend's notification in the terms of the client's era; a comment when it has none there.
fn notification(before: &Event, era: Era) -> Bytes {
    translated(before, era).map_or(Bytes::from_static(sse::KEEP_ALIVE), |message| event(&message))
}
