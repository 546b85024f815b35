//! Server-sent events of a body, as they come.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::coop;
use tokio::time::sleep;
use vmcp_json::byte_rope::ByteRope;
use vmcp_wire::sse;

use super::filler_limit::{FillerLimit, PAUSE, TURN};
use super::{AnswerLimits, ReadPieces, drain, next};
use crate::http_client::ResponseBody;
use crate::policy::byte_budget::ByteBudget;
use crate::transport::link_error::LinkError;

/// One event of a stream.
#[derive(Debug)]
pub(in crate::transport) struct Event {
    /// The type; `None` means `message`.
    pub(in crate::transport) name: Option<String>,
    /// The data, counted in the byte budget until its last use.
    pub(in crate::transport) data: Bytes,
    /// The id to resume from, if this event sets one; an empty id unsets it.
    pub(in crate::transport) id: Option<String>,
}

/// Reads the events of a body, each whole with [`Events::next`], or in pieces: [`Events::begin`], then
/// [`ReadPieces::next_piece`] up to its end.
pub(in crate::transport) struct Events {
    body: ResponseBody,
    decoder: sse::Decoder,
    chunk: Bytes,
    budget: ByteBudget,
    /// The first piece of the current event's data, not handed out yet.
    first: Option<Bytes>,
    /// True while data of the current event may follow.
    is_open: bool,
    /// The fields of the event that ended last.
    fields: sse::EventFields,
    /// True if the current event has brought data that are not empty.
    has_data: bool,
    /// True once an event has come.
    any: bool,
    filler: FillerLimit,
}

impl Events {
    /// Events of at most `limits.bytes` each; a larger one is an error.
    pub(in crate::transport) fn new(body: ResponseBody, limits: &AnswerLimits) -> Self {
        Self {
            body,
            decoder: sse::Decoder::new(limits.bytes),
            chunk: Bytes::new(),
            budget: limits.budget.clone(),
            first: None,
            is_open: false,
            fields: sse::EventFields::default(),
            has_data: false,
            any: false,
            filler: FillerLimit::new(Instant::now()),
        }
    }

    /// The next event; `None` at the end of the body.
    pub(in crate::transport) async fn next(&mut self) -> Result<Option<Event>, LinkError> {
        if !self.begin().await? {
            return Ok(None);
        }
        let (mut data, mut held) = (ByteRope::new(), self.budget.begin());
        while let Some(piece) = self.next_piece().await? {
            held.try_add(piece.len())?;
            data.push(piece);
        }
        let sse::EventFields { event: name, id } = std::mem::take(&mut self.fields);
        Ok(Some(Event { name, data: held.attach_to(data.into_bytes()), id }))
    }

    /// Waits for an event with data, which may be empty; false at the end of the body.
    pub(in crate::transport) async fn begin(&mut self) -> Result<bool, LinkError> {
        // One chunk may hold thousands of events: without pauses the thread would serve neither its other
        // connections nor its timers, the deadline of this call included.
        coop::consume_budget().await;
        loop {
            match self.next_part()? {
                Some(sse::Part::Data(piece)) => {
                    (self.first, self.is_open) = (Some(piece), true);
                    return Ok(true);
                }
                Some(sse::Part::End(fields)) => {
                    self.end(fields);
                    return Ok(true);
                }
                None => {}
            }
            if !self.more().await? {
                return Ok(false);
            }
        }
    }

    /// Makes more bytes available after [`Events::next_part`] has found none; false at the end of the body.
    async fn more(&mut self) -> Result<bool, LinkError> {
        if self.filler.take_turn() {
            sleep(PAUSE).await;
        }
        if self.chunk.is_empty() {
            let Some(chunk) = next(&mut self.body).await? else { return Ok(false) };
            self.chunk = chunk;
        }
        Ok(true)
    }

    /// Takes the next part from the chunk; `None` if the chunk, or a turn of filler, is used up first.
    fn next_part(&mut self) -> Result<Option<sse::Part>, LinkError> {
        let before = self.chunk.len();
        let part = self.decoder.next_within(&mut self.chunk, TURN).map_err(link_error)?;
        let data = match &part {
            Some(sse::Part::Data(piece)) => piece.len(),
            _ => 0,
        };
        self.has_data |= data > 0;
        self.filler.take(before - self.chunk.len(), data)?;
        Ok(part)
    }

    fn end(&mut self, fields: sse::EventFields) {
        (self.fields, self.is_open, self.any) = (fields, false, true);
        if std::mem::take(&mut self.has_data) {
            self.filler.end_event();
        }
    }

    /// The id of the event that ended last, if it has set one.
    pub(in crate::transport) fn id(&self) -> Option<&str> {
        self.fields.id.as_deref()
    }

    /// The type of the event that ended last; `None` means `message`.
    pub(in crate::transport) fn name(&self) -> Option<&str> {
        self.fields.event.as_deref()
    }

    /// True if the stream has brought an event.
    pub(in crate::transport) fn any(&self) -> bool {
        self.any
    }

    /// The pause before a broken stream is continued, if the server set one with `retry:`.
    pub(in crate::transport) fn retry(&self) -> Option<Duration> {
        self.decoder.retry().map(Duration::from_millis)
    }

    /// Lets the stream end in the background.
    pub(in crate::transport) fn drain(self) {
        drain(self.body);
    }
}

impl ReadPieces for Events {
    async fn next_piece(&mut self) -> Result<Option<Bytes>, LinkError> {
        let mut pieces: ByteRope = self.first.take().into_iter().collect();
        while self.is_open {
            // The lines that one chunk has of an event become one piece.
            match self.next_part()? {
                Some(sse::Part::Data(piece)) => pieces.push(piece),
                Some(sse::Part::End(fields)) => self.end(fields),
                None if !pieces.is_empty() => break,
                None => {
                    if !self.more().await? {
                        let detail = "the stream ended within an event".to_owned();
                        return Err(LinkError::Closed { detail });
                    }
                }
            }
        }
        Ok(Some(pieces.into_bytes()).filter(|piece| !piece.is_empty()))
    }
}

fn link_error(error: sse::SseError) -> LinkError {
    match error {
        sse::SseError::TooLarge { limit } => LinkError::TooLarge { limit },
        sse::SseError::Encoding => LinkError::Protocol(error.to_string()),
    }
}
