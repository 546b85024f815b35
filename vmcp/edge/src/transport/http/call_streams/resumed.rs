//! The answer stream of a GET that resumes a call.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, Stream};

use super::call_stream::{CallStream, NextEvent};

/// Yields the events behind `last`: the kept ones, then those to come; `None` if there was no event
/// `last`.
pub(super) fn events(stream: Arc<CallStream>, last: u64) -> Option<impl Stream<Item = Bytes> + Send + use<>> {
    let reader = stream.open_reader(last)?;
    Some(stream::unfold((stream, reader, last + 1), async |(stream, reader, number)| {
        let (event, number) = next(&stream, reader, number).await?;
        Some((event, (stream, reader, number)))
    }))
}

/// Waits for the event `number`; returns it and the number of the one behind it.
async fn next(stream: &CallStream, reader: u64, number: u64) -> Option<(Bytes, u64)> {
    loop {
        // Registered before `read` looks, so that an event in between ends the wait below.
        let changed = stream.changed();
        match stream.read(reader, number) {
            NextEvent::Event(event, next) => return Some((event, next)),
            NextEvent::NoneYet => changed.await,
            NextEvent::End => return None,
        }
    }
}
