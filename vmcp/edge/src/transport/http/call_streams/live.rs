//! [`LiveEvents`]: the answer stream of the POST that began a call, and the call without its client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::stream::{Stream, StreamExt as _};
use tokio::runtime::Handle;
use vmcp_json::byte_rope::ByteRope;

use super::CallStreams;
use super::call_stream::{CallStream, MAX_BYTES};
use crate::request::arriving_response::{BrokenOff, Pieces};
use crate::request::conversation::{Conversation, ConversationItem};
use crate::request::encoded_response::EncodedResponse;

/// The next part of the stream.
pub(crate) enum Step {
    /// A whole event.
    Event(Bytes),
    /// The answer while it arrives: the id of its event, its beginning and its rest.
    Arriving(String, ByteRope, Pieces),
}

/// Drives a call for the client that waits for it. If the client goes, the call goes on by itself.
pub(crate) struct LiveEvents {
    streams: Arc<CallStreams>,
    stream: Arc<CallStream>,
}

impl LiveEvents {
    /// Gives the stream its call.
    pub(super) fn new(
        streams: Arc<CallStreams>,
        stream: Arc<CallStream>,
        conversation: Conversation,
    ) -> Self {
        *stream.conversation().lock() = Some(conversation);
        Self { streams, stream }
    }

    /// Encodes and keeps an event that precedes those of the call.
    pub(crate) fn log(&self, data: &[u8]) -> Bytes {
        self.stream.log(data)
    }
}

impl Stream for LiveEvents {
    type Item = Step;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Step>> {
        let this = self.get_mut();
        let mut place = this.stream.conversation().lock();
        // Gone once the call has ended, or a GET has resumed it.
        let Some(conversation) = place.as_mut() else { return Poll::Ready(None) };
        let item = ready!(conversation.poll_next_unpin(context));
        if let Some(ConversationItem::Message(message)) = item {
            return Poll::Ready(Some(Step::Event(this.stream.log(&message))));
        }
        let conversation = place.take();
        drop(place);
        drop(conversation);
        let answer = match item {
            Some(ConversationItem::Answer(answer)) => answer,
            _ => EncodedResponse::internal_error(),
        };
        let recorder = Recorder { streams: Arc::clone(&this.streams), stream: Arc::clone(&this.stream) };
        Poll::Ready(Some(match answer.rest {
            None => {
                let event = this.stream.log_answer(Some(answer.body.into_bytes()));
                recorder.end();
                Step::Event(event.unwrap_or_default())
            }
            Some(rest) => {
                let id = this.stream.next_event_id();
                let kept = recorder.keep(answer.body.clone(), rest.into_pieces());
                Step::Arriving(id, answer.body, kept.boxed())
            }
        }))
    }
}

impl Drop for LiveEvents {
    fn drop(&mut self) {
        if let Some(conversation) = self.stream.take_conversation()
            && let Ok(runtime) = Handle::try_current()
        {
            let (streams, stream) = (Arc::clone(&self.streams), Arc::clone(&self.stream));
            runtime.spawn(run_detached(streams, stream, conversation));
        }
    }
}

/// Drives a call whose connection broke to its end; the log keeps its events for the client.
pub(super) async fn run_detached(
    streams: Arc<CallStreams>,
    stream: Arc<CallStream>,
    mut conversation: Conversation,
) {
    let recorder = Recorder { streams, stream };
    while let Some(item) = conversation.next().await {
        match item {
            ConversationItem::Message(message) => drop(recorder.stream.log(&message)),
            ConversationItem::Answer(EncodedResponse { body, rest: None, .. }) => {
                recorder.stream.log_answer(Some(body.into_bytes()));
            }
            ConversationItem::Answer(EncodedResponse { body, rest: Some(rest), .. }) => {
                let answer = collect(Some(body), rest.into_pieces()).await;
                recorder.stream.log_answer(answer.map(ByteRope::into_bytes));
            }
        }
    }
    recorder.end();
}

/// Records the end of a call.
struct Recorder {
    streams: Arc<CallStreams>,
    stream: Arc<CallStream>,
}

impl Recorder {
    fn end(&self) {
        self.stream.close();
        self.streams.ended(&self.stream);
    }

    /// Yields the pieces of an answer, and keeps them for a client that loses its connection meanwhile.
    fn keep(self, begun: ByteRope, pieces: Pieces) -> impl Stream<Item = Result<ByteRope, BrokenOff>> + Send {
        let tee = Tee { kept: within_limit(begun), pieces: Some(pieces), recorder: Some(self) };
        futures::stream::unfold(tee, async |mut tee| tee.next().await.map(|piece| (piece, tee)))
    }
}

/// Pieces of an answer on the way to a client, and a copy of the pieces that have passed.
struct Tee {
    /// The pieces so far; `None` if they are too large, or the answer broke off.
    kept: Option<ByteRope>,
    pieces: Option<Pieces>,
    recorder: Option<Recorder>,
}

impl Tee {
    async fn next(&mut self) -> Option<Result<ByteRope, BrokenOff>> {
        let next = self.pieces.as_mut()?.next().await;
        self.kept = match (&next, self.kept.take()) {
            (Some(Ok(piece)), Some(mut kept)) => {
                kept.append(piece.clone());
                within_limit(kept)
            }
            (None, kept) => kept,
            _ => None,
        };
        if next.is_none() {
            self.pieces = None;
        }
        next
    }
}

impl Drop for Tee {
    fn drop(&mut self) {
        let (Some(recorder), kept, pieces) = (self.recorder.take(), self.kept.take(), self.pieces.take())
        else {
            return;
        };
        let Some(pieces) = pieces else {
            recorder.stream.log_answer(kept.map(ByteRope::into_bytes));
            return recorder.end();
        };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                let answer = collect(kept, pieces).await;
                recorder.stream.log_answer(answer.map(ByteRope::into_bytes));
                recorder.end();
            });
        }
    }
}

/// Waits for the rest of an answer; `None` if it breaks off or has more than [`MAX_BYTES`].
async fn collect(begun: Option<ByteRope>, mut pieces: Pieces) -> Option<ByteRope> {
    let mut answer = begun.and_then(within_limit)?;
    while let Some(piece) = pieces.next().await {
        answer.append(piece.ok()?);
        answer = within_limit(answer)?;
    }
    Some(answer)
}

fn within_limit(answer: ByteRope) -> Option<ByteRope> {
    Some(answer).filter(|answer| answer.len() <= MAX_BYTES)
}
