//! [`PlainConnection`]: one HTTP/1.1 connection, moved on by the request that uses it.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime;

use super::driver_waker::DriverWaker;
use super::head_limit::{HeadAllowance, HeadLimit};

/// Polls of a connection in a row, while it keeps waking itself; then other tasks have their turn.
const MAX_TURNS: u32 = 4;
/// Bytes that one read takes, and the limit of a response's head. By default hyper's buffer grows to 400 KiB,
/// and each piece of an answer that a slow client has not taken yet keeps one alive.
const MAX_BUFFER_BYTES: usize = 128 * 1024;

type OutgoingRequest = Request<Full<Bytes>>;
type Driver = Connection<TokioIo<HeadLimit>, Full<Bytes>>;

/// One connection without a task of its own: the request under way polls it, then the body of its response.
/// No message crosses a task, so a call costs no wake-up but the one that its answer causes.
pub(super) struct PlainConnection {
    sender: SendRequest<Full<Bytes>>,
    /// `None` once the connection has ended.
    driver: Option<Driver>,
    signal: Arc<DriverWaker>,
    /// `signal` as a waker.
    waker: Waker,
    /// Bounds the bytes before a response.
    head: HeadAllowance,
    /// The runtime whose I/O driver watches the socket.
    pub(super) home: runtime::Id,
}

impl PlainConnection {
    pub(super) async fn handshake(io: TokioIo<TcpStream>) -> Result<Self, hyper::Error> {
        let (stream, head) = HeadLimit::new(io.into_inner());
        let io = TokioIo::new(stream);
        let (sender, driver) = http1::Builder::new().max_buf_size(MAX_BUFFER_BYTES).handshake(io).await?;
        let signal = Arc::new(DriverWaker::default());
        let waker = Waker::from(Arc::clone(&signal));
        let home = runtime::Handle::current().id();
        Ok(Self { sender, driver: Some(driver), signal, waker, head, home })
    }

    /// Sends a request and waits for the head of its response. The error has the request again if none of it
    /// was written.
    pub(super) async fn send(
        &mut self,
        request: OutgoingRequest,
    ) -> Result<Response<Incoming>, TrySendError<OutgoingRequest>> {
        self.head.begin();
        let mut response = pin!(self.sender.try_send_request(request));
        let (driver, signal, waker) = (&mut self.driver, &self.signal, &self.waker);
        let response =
            poll_fn(|task| drive(driver, signal, waker, task, |context| response.as_mut().poll(context)))
                .await;
        self.head.end();
        response
    }

    /// Polls for the next frame of the response's body.
    pub(super) fn poll_frame(
        &mut self,
        task: &mut Context<'_>,
        body: &mut Incoming,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // Parts that have arrived need no look at the socket.
        if let ready @ Poll::Ready(_) = Pin::new(&mut *body).poll_frame(&mut ignored()) {
            return ready;
        }
        let (driver, signal, waker) = (&mut self.driver, &self.signal, &self.waker);
        drive(driver, signal, waker, task, |context| Pin::new(&mut *body).poll_frame(context))
    }

    /// True if the connection can take another request: the last one is written and its answer read.
    pub(super) fn is_idle(&self) -> bool {
        self.driver.is_some() && self.sender.is_ready()
    }

    /// Looks at the socket of an idle connection. Returns false if the server has closed it, or has sent what
    /// it was not asked for.
    pub(super) fn is_alive(&mut self) -> bool {
        let Some(driver) = &mut self.driver else { return false };
        if Pin::new(driver).poll(&mut Context::from_waker(&self.waker)).is_ready() {
            self.driver = None;
        }
        self.is_idle()
    }
}

/// A context for futures that only the connection can move on, and are polled after it.
fn ignored() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Moves the connection on until `look` is ready. A connection that ends is dropped, which makes `look`
/// ready with an error.
fn drive<T>(
    driver: &mut Option<Driver>,
    signal: &DriverWaker,
    waker: &Waker,
    task: &mut Context<'_>,
    mut look: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    for _ in 0..MAX_TURNS {
        signal.begin();
        advance(driver, waker);
        let seen = look(&mut ignored());
        if seen.is_ready() || signal.wait(task.waker()) {
            return seen;
        }
    }
    task.waker().wake_by_ref();
    Poll::Pending
}

/// Polls a connection, and drops it at its end. Not generic: hyper's connection is compiled here, once, and
/// not in each crate that polls a call.
fn advance(driver: &mut Option<Driver>, waker: &Waker) {
    if let Some(connection) = driver
        && Pin::new(connection).poll(&mut Context::from_waker(waker)).is_ready()
    {
        *driver = None;
    }
}

impl fmt::Debug for PlainConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainConnection").field("is_idle", &self.is_idle()).finish_non_exhaustive()
    }
}
