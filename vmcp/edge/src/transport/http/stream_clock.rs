//! [`StreamClock`]: notices that a client leaves the body of one HTTP/2 stream unread.
//!
//! HTTP/2 has flow control by stream: a client that grants no window blocks no socket, so the write timeout
//! of the socket never runs.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bit that is set while the client has not taken the last piece.
const UNREAD: usize = 1;
/// One piece taken, in the counter above that bit.
const PIECE: usize = 2;

/// Progress of one response body.
#[derive(Debug, Default)]
pub(crate) struct StreamClock(AtomicUsize);

impl StreamClock {
    /// Records a poll of the body. The stream polls only when the piece before has been sent.
    pub(super) fn polled(&self, piece: bool) {
        let state = self.0.load(Ordering::Relaxed) & !UNREAD;
        self.0.store(state.wrapping_add(PIECE) | usize::from(piece), Ordering::Relaxed);
    }

    /// Returns a number that changes with each poll; `None` while the body, not the client, is waited for.
    pub(crate) fn unread(&self) -> Option<usize> {
        Some(self.0.load(Ordering::Relaxed)).filter(|state| state & UNREAD != 0)
    }
}
