//! [`HostPool`]: the idle plain HTTP/1.1 connections to one server; and [`PlainBody`], which gives one back.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use thread_local::ThreadLocal;
use tokio::runtime;
use tokio::time::sleep;
use vmcp_egress::GuardedTcp;
use vmcp_error_chain::error_chain;

use super::plain_connection::PlainConnection;
use super::{MIN_SILENCE, POOL_IDLE_TIMEOUT, SendError};

/// Idle connections to one server for each thread; one more closes the one that is idle longest.
const MAX_IDLE_PER_THREAD: usize = 128;
/// Interval at which idle connections are looked at: those that the server has closed, or that are too old,
/// are dropped.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// A pool for each thread, last in, first out. A connection belongs to the runtime that opened it, and stays
/// with the thread that used it last: on a runtime of one thread nothing is shared but the sweep.
pub(crate) struct HostPool {
    connector: GuardedTcp,
    uri: Uri,
    idle: ThreadLocal<Mutex<VecDeque<IdleConnection>>>,
    /// True while a task sweeps.
    swept: AtomicBool,
}

struct IdleConnection {
    connection: Box<PlainConnection>,
    since: Instant,
}

impl HostPool {
    pub(super) fn new(connector: GuardedTcp, uri: Uri) -> Arc<Self> {
        let (idle, swept) = (ThreadLocal::new(), AtomicBool::new(false));
        Arc::new(Self { connector, uri, idle, swept })
    }

    /// Sends a request on an idle connection, or on a new one. A request of which nothing was written because
    /// the server had closed the idle connection is sent again.
    pub(super) async fn send(
        pool: &Arc<Self>,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<PlainBody>, SendError> {
        loop {
            let reused = pool.take();
            let is_reused = reused.is_some();
            let mut silence =
                is_reused.then(|| SilenceWatch { pool, since: Instant::now(), answered: false });
            let mut connection = match reused {
                Some(connection) => connection,
                // Boxed: calls on open connections do not carry the state of opening one.
                None => Box::pin(pool.connect()).await?,
            };
            let answer = connection.send(request).await;
            if let Some(silence) = &mut silence {
                silence.answered = true;
            }
            match answer {
                Ok(response) => {
                    return Ok(response.map(|body| PlainBody::new(body, connection, Arc::clone(pool))));
                }
                Err(mut error) => match error.take_message().filter(|_| is_reused) {
                    Some(unsent) => request = unsent,
                    None => return Err(SendError::Closed(error_chain(error.error()))),
                },
            }
        }
    }

    /// Takes the idle connection of this thread that was used last and is still good.
    fn take(&self) -> Option<Box<PlainConnection>> {
        let home = runtime::Handle::try_current().ok()?.id();
        let mut idle = self.idle.get_or_default().lock();
        while let Some(IdleConnection { connection, since }) = idle.pop_back() {
            // Whatever lies below has been idle for longer.
            if since.elapsed() >= POOL_IDLE_TIMEOUT {
                idle.clear();
                return None;
            }
            if connection.home == home {
                return Some(connection);
            }
        }
        None
    }

    /// Drops the idle connections whose last use was before `then`.
    fn drop_unused_since(&self, then: Instant) {
        let dropped: Vec<_> = self
            .idle
            .iter()
            .flat_map(|idle| {
                let mut idle = idle.lock();
                let (old, young) = idle.drain(..).partition::<VecDeque<_>, _>(|one| one.since < then);
                *idle = young;
                old
            })
            .collect();
        if !dropped.is_empty() {
            tracing::debug!(dropped = dropped.len(), "idle connections as old as a silent one are closed");
        }
    }

    async fn connect(&self) -> Result<Box<PlainConnection>, SendError> {
        let stream = self.connector.connect(self.uri.clone()).await;
        let stream = stream.map_err(|error| SendError::Connect(error_chain(&*error)))?;
        let connection = PlainConnection::handshake(stream).await;
        connection.map(Box::new).map_err(|error| SendError::Connect(error_chain(&error)))
    }

    /// Takes a connection whose answer has been read. One that cannot be used again is closed.
    pub(super) fn give_back(pool: &Arc<Self>, connection: Box<PlainConnection>) {
        let here = runtime::Handle::try_current().map(|runtime| runtime.id());
        if !connection.is_idle() || here.ok() != Some(connection.home) {
            return;
        }
        let surplus = {
            let mut idle = pool.idle.get_or_default().lock();
            idle.push_back(IdleConnection { connection, since: Instant::now() });
            if idle.len() > MAX_IDLE_PER_THREAD { idle.pop_front() } else { None }
        };
        drop(surplus);
        if !pool.swept.swap(true, Ordering::SeqCst) {
            tokio::spawn(sweep(SweepMark(Arc::downgrade(pool))));
        }
    }

    /// Drops idle connections that are too old or closed. Returns true if there are others.
    fn drop_dead(&self) -> bool {
        let is_good = |idle: &mut IdleConnection| {
            idle.since.elapsed() < POOL_IDLE_TIMEOUT && idle.connection.is_alive()
        };
        self.idle.iter().for_each(|idle| idle.lock().retain_mut(is_good));
        self.has_idle()
    }

    fn has_idle(&self) -> bool {
        self.idle.iter().any(|idle| !idle.lock().is_empty())
    }
}

/// Watches a request on a connection that was idle before. A firewall drops idle connections silently and all
/// at once; each of them would cost a call its whole time limit.
struct SilenceWatch<'a> {
    pool: &'a HostPool,
    since: Instant,
    answered: bool,
}

impl Drop for SilenceWatch<'_> {
    /// Given up without an answer, the request casts doubt on all connections that were idle when it began.
    fn drop(&mut self) {
        if !self.answered && self.since.elapsed() >= MIN_SILENCE {
            self.pool.drop_unused_since(self.since);
        }
    }
}

/// Sweeps until the pool is empty or gone.
async fn sweep(mut mark: SweepMark) {
    loop {
        sleep(SWEEP_INTERVAL).await;
        let Some(pool) = mark.0.upgrade() else { return };
        if pool.drop_dead() {
            continue;
        }
        pool.swept.store(false, Ordering::SeqCst);
        // A connection that came back in between relied on this sweep.
        if !pool.has_idle() || pool.swept.swap(true, Ordering::SeqCst) {
            mark.0 = Weak::new();
            return;
        }
    }
}

/// Lets the next idle connection start a sweep if the task ends with its runtime.
struct SweepMark(Weak<HostPool>);

impl Drop for SweepMark {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            pool.swept.store(false, Ordering::SeqCst);
        }
    }
}

impl fmt::Debug for HostPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostPool").field(&self.uri).finish()
    }
}

/// A body on a connection of a [`HostPool`].
#[derive(Debug)]
pub(crate) struct PlainBody {
    incoming: Incoming,
    /// `None` once the body has ended.
    connection: Option<Box<PlainConnection>>,
    pool: Arc<HostPool>,
}

impl PlainBody {
    fn new(incoming: Incoming, connection: Box<PlainConnection>, pool: Arc<HostPool>) -> Self {
        let mut body = Self { incoming, connection: Some(connection), pool };
        body.release_at_end();
        body
    }

    /// Gives the connection back if the body is known to have ended.
    fn release_at_end(&mut self) {
        if self.incoming.is_end_stream() {
            self.release();
        }
    }

    fn release(&mut self) {
        if let Some(connection) = self.connection.take() {
            HostPool::give_back(&self.pool, connection);
        }
    }

    pub(super) fn poll_frame(
        &mut self,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(None) };
        let polled = connection.poll_frame(task, &mut self.incoming);
        match &polled {
            Poll::Ready(Some(Ok(_))) => self.release_at_end(),
            Poll::Ready(Some(Err(_))) => drop(self.connection.take()),
            Poll::Ready(None) => self.release(),
            Poll::Pending => {}
        }
        polled
    }

    /// True once the body has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.connection.is_none()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
