//! [`FramePace`]: lets other tasks run while a body floods, and throttles one that arrives in tiny pieces.
//!
//! A task yields only if it finds nothing to read. While a server floods, the next piece has always arrived,
//! and each piece costs its reader the same work, however small.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

/// Bytes below which a piece counts as tiny.
const TINY_BYTES: usize = 512;
/// Tiny pieces that are read in a row; then other tasks have their turn.
const TURN: u32 = 128;
/// Bytes that are read in a row; then other tasks have their turn.
const TURN_BYTES: usize = 512 * 1024;
/// Tiny pieces of one body that are read without a [`PAUSE`]: a serializer that writes token by token sends
/// some ten thousand in an answer.
const FREE_PIECES: u32 = 16 * 1024;
/// Pause after each further [`TURN`] of tiny pieces, which bounds them to some ten thousand a second.
const PAUSE: Duration = Duration::from_millis(1);

/// The pace of one body.
#[derive(Debug, Default)]
pub(super) struct FramePace {
    /// Tiny pieces so far.
    tiny: u32,
    /// Bytes of this turn.
    bytes: usize,
    /// The rest that is due before the next piece.
    due: Due,
}

#[derive(Debug, Default)]
enum Due {
    #[default]
    Nothing,
    Yield,
    Pause(Pin<Box<Sleep>>),
}

impl FramePace {
    /// Counts a piece.
    pub(super) fn read(&mut self, bytes: usize) {
        if bytes >= TINY_BYTES {
            self.bytes = self.bytes.saturating_add(bytes);
            if self.bytes >= TURN_BYTES {
                self.bytes = 0;
                self.due = Due::Yield;
            }
            return;
        }
        self.tiny = self.tiny.saturating_add(1);
        if self.tiny > FREE_PIECES {
            // Stays above the limit without an overflow.
            if self.tiny >= FREE_PIECES + TURN {
                self.tiny = FREE_PIECES;
                self.due = Due::Pause(Box::pin(sleep(PAUSE)));
            }
        } else if self.tiny.is_multiple_of(TURN) {
            self.due = Due::Yield;
        }
    }

    /// Waits until the next piece may be read.
    pub(super) fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<()> {
        match &mut self.due {
            Due::Nothing => return Poll::Ready(()),
            Due::Yield => {
                self.due = Due::Nothing;
                task.waker().wake_by_ref();
                return Poll::Pending;
            }
            Due::Pause(pause) => ready!(pause.as_mut().poll(task)),
        }
        self.due = Due::Nothing;
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Instant;

    use super::*;

    async fn read(pace: &mut FramePace, pieces: u32, bytes: usize) {
        for _ in 0..pieces {
            poll_fn(|task| pace.poll_ready(task)).await;
            pace.read(bytes);
        }
    }

    #[tokio::test]
    async fn pieces_of_some_size_only_let_other_tasks_run() {
        let mut pace = FramePace::default();
        let mut task = Context::from_waker(std::task::Waker::noop());
        for _ in 0..100 * TURN_BYTES / TINY_BYTES {
            if pace.poll_ready(&mut task).is_pending() {
                assert!(pace.poll_ready(&mut task).is_ready());
            }
            pace.read(TINY_BYTES);
        }
    }

    #[tokio::test]
    async fn tiny_pieces_let_other_tasks_run_and_then_wait() {
        let mut pace = FramePace::default();
        let mut task = Context::from_waker(std::task::Waker::noop());
        let turns = (0..FREE_PIECES).filter(|_| {
            let is_due = pace.poll_ready(&mut task).is_pending();
            pace.read(1);
            is_due
        });
        assert_eq!(turns.count() as u32, FREE_PIECES / TURN - 1);
        let since = Instant::now();
        read(&mut pace, 100 * TURN, 1).await;
        assert!(since.elapsed() >= 99 * PAUSE, "{:?}", since.elapsed());
    }
}
