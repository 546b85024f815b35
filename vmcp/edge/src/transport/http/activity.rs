//! [`Activity`]: tells if a connection has a request under way, so that an idle one can be closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Requests of one connection. Clones share the count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Requests whose answer has not been written yet.
    under_way: AtomicUsize,
    /// Requests since the connection began.
    begun: AtomicUsize,
    /// True while the client leaves written bytes unread.
    blocked: AtomicBool,
    /// True once the server shuts down.
    closing: AtomicBool,
    /// True when a request was refused with its body unread.
    refused: AtomicBool,
}

/// A request under way; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ActiveRequest(Activity);

impl Activity {
    /// Counts a request that begins.
    pub(crate) fn begin(&self) -> ActiveRequest {
        self.0.under_way.fetch_add(1, Ordering::Relaxed);
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(self.clone())
    }

    /// Returns true while a request is under way or its answer is unread.
    pub(crate) fn is_busy(&self) -> bool {
        self.0.under_way.load(Ordering::Relaxed) > 0 || self.0.blocked.load(Ordering::Relaxed)
    }

    /// Returns the number of requests so far.
    pub(crate) fn begun(&self) -> usize {
        self.0.begun.load(Ordering::Relaxed)
    }

    /// Returns true once after a request was refused with its body unread: the connection is to be closed.
    pub(crate) fn take_refused(&self) -> bool {
        self.0.refused.load(Ordering::Relaxed) && self.0.refused.swap(false, Ordering::Relaxed)
    }

    /// Makes the next answer the connection's last.
    pub(crate) fn close_after_answer(&self) {
        self.0.closing.store(true, Ordering::Relaxed);
    }

    /// Returns true if the connection is to be closed after the answer to its next request.
    pub(crate) fn closes_after_answer(&self) -> bool {
        self.0.closing.load(Ordering::Relaxed)
    }

    /// Records that writing waits for the client, or goes on.
    pub(crate) fn set_blocked(&self, blocked: bool) {
        self.0.blocked.store(blocked, Ordering::Relaxed);
    }
}

impl ActiveRequest {
    /// Records that the request is refused with its body unread.
    pub(crate) fn refuse_unread(self) {
        self.0.0.refused.store(true, Ordering::Relaxed);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}
