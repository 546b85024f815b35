//! Results that are handed on while they arrive.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use parking_lot::Mutex;
use vmcp_json::byte_rope::ByteRope;
use vmcp_wire::payload::Scanner;

use crate::request::call_error::CallError;

/// Pieces of an answer, in the order in which they arrive. An error is the last item.
pub(crate) type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, CallError>> + Send>>;

/// A result whose beginning has arrived. The call is under way until [`ArrivingRest`] ends or is dropped.
#[derive(Debug)]
pub struct ArrivingResult {
    /// Boxed, for whole answers are moved as the largest variant of an outcome is.
    scanner: Box<Scanner>,
    so_far: ByteRope,
    rest: ArrivingRest,
}

/// The bytes of an answer that are still to come. Nothing is read from the backend but for a waiting reader
/// (backpressure). Dropping it cancels the call at the backend.
pub struct ArrivingRest {
    /// `None` once the answer has ended. The lock makes the type `Sync`; nothing ever waits for it.
    pieces: Mutex<Option<Pieces>>,
    /// Held until the end.
    guards: Mutex<Vec<Box<dyn Send>>>,
}

impl ArrivingResult {
    /// A result that begins with `so_far`, which `scanner` has read.
    pub(crate) fn new(
        scanner: Scanner,
        so_far: ByteRope,
        pieces: impl Stream<Item = Result<Bytes, CallError>> + Send + 'static,
    ) -> Self {
        let pieces: Pieces = Box::pin(pieces);
        let rest = ArrivingRest { pieces: Mutex::new(Some(pieces)), guards: Mutex::default() };
        Self { scanner: Box::new(scanner), so_far, rest }
    }

    /// Takes it apart: the scanner, the bytes of the whole answer that it has read, and those to come.
    /// [`IncrementalResult`](vmcp_wire::translate::IncrementalResult) begins with the first two.
    pub fn into_parts(self) -> (Scanner, ByteRope, ArrivingRest) {
        (*self.scanner, self.so_far, self.rest)
    }

    /// Holds `guard` until the answer has ended.
    pub(crate) fn keep(&mut self, guard: impl Send + 'static) {
        self.rest.guards.get_mut().push(Box::new(guard));
    }

    /// Puts a layer around the pieces that are still to come.
    pub(crate) fn wrap(&mut self, layer: impl FnOnce(Pieces) -> Pieces) {
        let pieces = self.rest.pieces.get_mut();
        *pieces = pieces.take().map(layer);
    }
}

impl Stream for ArrivingRest {
    type Item = Result<Bytes, CallError>;

    fn poll_next(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let Some(pieces) = this.pieces.get_mut() else { return Poll::Ready(None) };
        let polled = pieces.as_mut().poll_next(task);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            *this.pieces.get_mut() = None;
            this.guards.get_mut().clear();
        }
        polled
    }
}

impl fmt::Debug for ArrivingRest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrivingRest").finish_non_exhaustive()
    }
}
