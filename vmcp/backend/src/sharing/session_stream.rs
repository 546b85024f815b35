//! The GET stream of one upstream session: opened while a client can take the server's messages, closed
//! when the session is idle, opened again by the next call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use crate::connection::Connection;
use crate::transport::Link;

/// Starts and stops the task that reads one session's GET stream.
#[derive(Debug, Default)]
pub(crate) struct SessionStream {
    reader: Mutex<Option<AbortOnDropHandle<()>>>,
    /// The stream was closed for idleness; the next call opens it again.
    idle: AtomicBool,
    /// The server did not answer a GET in time: it holds the answer back until it has something to send.
    held_back: AtomicBool,
}

impl SessionStream {
    /// Closes the stream and leaves the session open: an idle stream holds a socket and its buffers at both
    /// ends, an idle session only an id.
    pub(crate) fn close_idle(&self) {
        let mut reader = self.reader.lock();
        if reader.take_if(|reader| !reader.is_finished()).is_some() {
            self.idle.store(true, Ordering::Relaxed);
        }
    }

    /// True if [`SessionStream::close_idle`] closed a stream that has not been opened again.
    pub(crate) fn is_closed_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed)
    }

    /// Closes the stream for good.
    pub(crate) fn stop(&self) {
        self.reader.lock().take();
    }

    /// Opens the stream if it is `wanted` and not open, closes it if it is not wanted. `connection` is asked
    /// for under the lock, so that two callers never open two streams.
    ///
    /// The receiver that is returned ends when the server has answered the GET.
    pub(crate) fn follow(
        &self,
        wanted: bool,
        connection: impl FnOnce() -> Option<Arc<Connection>>,
    ) -> Option<oneshot::Receiver<()>> {
        let mut reader = self.reader.lock();
        self.idle.store(false, Ordering::Relaxed);
        if !wanted {
            reader.take();
            return None;
        }
        if reader.as_ref().is_some_and(|reader| !reader.is_finished()) {
            return None;
        }
        let (connection, runtime) = (connection()?, Handle::try_current().ok()?);
        let Link::Http(http) = &connection.channel.link else { return None };
        let (http, closed) = (http.clone(), connection.channel.closed.clone());
        let (first, opened) = oneshot::channel();
        let read = async move {
            // Missed announcements are no concern here: the main connection hears of changed lists.
            let _ = closed.run_until_cancelled(http.follow(first, || {})).await;
        };
        *reader = Some(AbortOnDropHandle::new(runtime.spawn(read.in_current_span())));
        Some(opened)
    }

    /// Waits up to `patience` for what [`SessionStream::follow`] returned: a question that the server asks
    /// before has no client to go to. A server that holds its answer back is waited for once in a session.
    pub(crate) async fn answered(&self, opened: oneshot::Receiver<()>, patience: Duration) {
        if !self.is_held_back() && timeout(patience, opened).await.is_err() {
            self.held_back.store(true, Ordering::Relaxed);
        }
    }

    /// True if no call waits for the stream any more.
    fn is_held_back(&self) -> bool {
        self.held_back.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_holds_its_answer_back_is_waited_for_once() {
        let stream = SessionStream::default();
        let (answer, opened) = oneshot::channel();
        drop(answer);
        stream.answered(opened, Duration::ZERO).await;
        assert!(!stream.is_held_back(), "it answered, or its stream has ended");
        let (_holds, opened) = oneshot::channel();
        stream.answered(opened, Duration::ZERO).await;
        assert!(stream.is_held_back());
        let (_holds, opened) = oneshot::channel();
        // Without a wait this ends, however long the patience.
        stream.answered(opened, Duration::MAX).await;
    }
}
