//! Server-sent events of a body, as they come.

use std::time::Duration;

use bytes::Bytes;
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
}

impl Events {
    /// Events of at most `limits.bytes` each; a larger one is an error.
    pub(in crate::transport) fn new(body: ResponseBody, limits: &AnswerLimits) -> Self {
        let (decoder, held) = (sse::Decoder::new(limits.bytes), limits.budget.begin());
        Self { body, decoder, chunk: Bytes::new(), budget: limits.budget.clone(), held, any: false }
    }

    /// The next event; `None` at the end of the body.
    pub(in crate::transport) async fn next(&mut self) -> Result<Option<Event>, LinkError> {
        loop {
            let mut rest = &*self.chunk;
            let event = self.decoder.next(&mut rest).map_err(|error| match error {
                sse::SseError::TooLarge { limit } => LinkError::TooLarge { limit },
                sse::SseError::Encoding => LinkError::Protocol(error.to_string()),
            })?;
            self.chunk = self.chunk.slice_ref(rest);
            if let Some(sse::Event { event: name, data, id }) = event {
                self.any = true;
                self.held = self.budget.begin();
                let mut held = self.budget.begin();
                held.try_add(data.len())?;
                return Ok(Some(Event { name, data: held.attach_to(data.into()), id }));
            }
            match next(&mut self.body).await? {
                Some(chunk) => {
                    self.held.try_add(chunk.len())?;
                    self.chunk = chunk;
                }
                None => return Ok(None),
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
