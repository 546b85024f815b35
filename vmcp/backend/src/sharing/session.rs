//! One upstream session: a connection that a client, or some clients that count as one, have for themselves:
//! an HTTP session, an event stream or a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::policy::relisting::Relisting;
use crate::sharing::placement::Placement;
use crate::sharing::session_stream::SessionStream;

/// A place in the [pool](crate::sharing::session_pool): empty until the first call opens the
/// session, and empty again after [`UpstreamSession::end`].
#[derive(Debug)]
pub(crate) struct UpstreamSession {
    pub(crate) placement: Placement,
    pub(crate) connection: ArcSwapOption<Connection>,
    /// Held while the session is opened (single flight): calls that arrive meanwhile wait and share the
    /// result.
    pub(crate) opening: tokio::sync::Mutex<()>,
    usage: Mutex<Usage>,
    /// Reads the session's GET stream.
    pub(crate) stream: SessionStream,
    /// Listings of the session's own connection.
    pub(crate) relisting: SessionRelisting,
    /// Set when the session left the pool, possibly while it was still being opened.
    ended: AtomicBool,
}

#[derive(Debug)]
struct Usage {
    /// Leases that are out.
    calls: usize,
    /// Leases so far.
    served: u64,
    /// End of the last lease, or creation.
    last_used: Instant,
}

/// Listings of one session's own connection: one at a time, and one more that waits.
#[derive(Debug, Default)]
pub(crate) struct SessionRelisting {
    /// Held by the listing under way.
    pub(crate) schedule: tokio::sync::Mutex<Relisting>,
    waits: AtomicBool,
}

impl SessionRelisting {
    /// Queues a listing; false if one waits already.
    pub(crate) fn queue(&self) -> bool {
        !self.waits.swap(true, Ordering::Relaxed)
    }

    /// Begins the listing that waits: what is announced from now on needs another.
    pub(crate) fn begin(&self) {
        self.waits.store(false, Ordering::Relaxed);
    }
}

impl UpstreamSession {
    pub(crate) fn new(placement: Placement) -> Self {
        Self {
            placement,
            connection: ArcSwapOption::empty(),
            opening: tokio::sync::Mutex::default(),
            usage: Mutex::new(Usage { calls: 0, served: 0, last_used: Instant::now() }),
            stream: SessionStream::default(),
            relisting: SessionRelisting::default(),
            ended: AtomicBool::new(false),
        }
    }

    /// Notes a lease that is out.
    pub(crate) fn begin_use(&self) {
        let mut usage = self.usage.lock();
        usage.calls += 1;
        usage.served += 1;
    }

    /// Notes the end of a lease.
    pub(crate) fn end_use(&self) {
        let mut usage = self.usage.lock();
        usage.calls -= 1;
        usage.last_used = Instant::now();
    }

    /// The session's connection, if it is open.
    pub(crate) fn live(&self) -> Option<Arc<Connection>> {
        self.connection.load_full().filter(|connection| !connection.channel.closed.is_cancelled())
    }

    /// End of the last lease; `None` while one is out.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let usage = self.usage.lock();
        (usage.calls == 0).then_some(usage.last_used)
    }

    /// Number of leases so far.
    pub(crate) fn calls_served(&self) -> u64 {
        self.usage.lock().served
    }

    /// Marks the session as ended and takes its connection, which the caller closes.
    pub(crate) fn retire(&self) -> Option<Arc<Connection>> {
        // Before the swap: an opening that stores its connection after the swap sees the mark and closes it
        // itself.
        self.ended.store(true, Ordering::SeqCst);
        self.connection.swap(None)
    }

    /// True once [`UpstreamSession::retire`] was called.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Ends the session here; a background task sends the server its DELETE.
    pub(crate) fn end(&self) {
        let connection = self.retire();
        self.stream.stop();
        if let (Some(connection), Ok(runtime)) = (connection, Handle::try_current()) {
            runtime.spawn(async move { connection.close().await });
        }
    }
}
