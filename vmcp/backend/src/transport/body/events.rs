//! Server-sent events of a body, as they come.

use std::time::Duration;

use bytes::Bytes;
use tokio::task::coop;
use vmcp_wire::sse;

use super::{AnswerLimits, drain, next};
use crate::http_client::ResponseBody;
use crate::policy::byte_budget::{ByteBudget, HeldBytes};
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

/// Reads the events of a body.
pub(in crate::transport) struct Events {
    body: ResponseBody,
    decoder: sse::Decoder,
    chunk: Bytes,
    budget: ByteBudget,
    /// Bytes of the unfinished event.
    held: HeldBytes,
    /// True once an event has come.
    any: bool,
    /// Data of the event that was begun, not read yet.
    begun: Option<Bytes>,
}

/// Result of [`Events::next_from`].
pub(in crate::transport) enum NextEvent {
    Whole(Event),
    /// A large event that has not ended.
    Begun,
    /// The end of the body.
    End,
}

impl Events {
    /// Events of at most `limits.bytes` each; a larger one is an error.
    pub(in crate::transport) fn new(body: ResponseBody, limits: &AnswerLimits) -> Self {
        let (decoder, held) = (sse::Decoder::new(limits.bytes), limits.budget.begin());
        Self {
            body,
            decoder,
            chunk: Bytes::new(),
            budget: limits.budget.clone(),
            held,
            any: false,
            begun: None,
        }
    }

    /// The next event; `None` at the end of the body.
    pub(in crate::transport) async fn next(&mut self) -> Result<Option<Event>, LinkError> {
        loop {
            match self.next_from(usize::MAX).await? {
                NextEvent::Whole(event) => return Ok(Some(event)),
                NextEvent::End => return Ok(None),
                NextEvent::Begun => {}
            }
        }
    }

    /// The next event, or the beginning of one that has `least` bytes: its data are to be read with
    /// [`Events::next_part`].
    pub(in crate::transport) async fn next_from(&mut self, least: usize) -> Result<NextEvent, LinkError> {
        loop {
            let mut rest = &*self.chunk;
            let event = self.decoder.next(&mut rest).map_err(link_error)?;
            self.chunk = self.chunk.slice_ref(rest);
            if let Some(sse::Event { event: name, data, id }) = event {
                // One chunk may hold thousands of events: without pauses the thread would serve neither its
                // other connections nor its timers, the deadline of this call included.
                coop::consume_budget().await;
                self.any = true;
                self.held = self.budget.begin();
                let mut held = self.budget.begin();
                held.try_add(data.len())?;
                return Ok(NextEvent::Whole(Event { name, data: held.attach_to(data.into()), id }));
            }
            if let Some(data) = self.decoder.take_data(least).map_err(link_error)? {
                self.held = self.budget.begin();
                self.begun = Some(data.into());
                return Ok(NextEvent::Begun);
            }
            match next(&mut self.body).await? {
                Some(chunk) => {
                    self.held.try_add(chunk.len())?;
                    self.chunk = chunk;
                }
                None => return Ok(NextEvent::End),
            }
        }
    }

    /// The next part of the data of a [`NextEvent::Begun`]; `None` at its end.
    pub(in crate::transport) async fn next_part(&mut self) -> Result<Option<Bytes>, LinkError> {
        let Some(part) = &mut self.begun else { return Ok(None) };
        if !part.is_empty() {
            return Ok(Some(std::mem::take(part)));
        }
        match self.next_from(1).await? {
            NextEvent::Begun => Ok(self.begun.as_mut().map(std::mem::take)),
            NextEvent::Whole(event) => {
                self.begun = None;
                Ok(Some(event.data).filter(|data| !data.is_empty()))
            }
            NextEvent::End => {
                Err(LinkError::Closed { detail: "the stream ended within its answer".to_owned() })
            }
        }
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

fn link_error(error: sse::SseError) -> LinkError {
    match error {
        sse::SseError::TooLarge { limit } => LinkError::TooLarge { limit },
        sse::SseError::Encoding => LinkError::Protocol(error.to_string()),
    }
}
