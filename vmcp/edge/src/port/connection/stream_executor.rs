//! [`StreamExecutor`]: runs the streams of one HTTP/2 connection, and resets a stream whose client leaves its
//! answer unread.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::{Service, service_fn};
use parking_lot::Mutex;
use tokio::time::{Sleep, sleep};

use crate::transport::http::exchange::Response;
use crate::transport::http::stream_clock::StreamClock;
use vmcp_engine::engine::Engine;

/// Spawns the streams of one connection.
#[derive(Clone)]
pub(super) struct StreamExecutor {
    engine: Engine,
    /// Time that a client may leave a piece of an answer unread.
    limit: Duration,
    /// Clock of the request that hyper handed to the service last. Its stream is spawned next, before hyper
    /// accepts another one.
    latest: Arc<Mutex<Option<Arc<StreamClock>>>>,
}

impl StreamExecutor {
    /// Creates the executor of a connection.
    pub(super) fn new(engine: Engine, limit: Duration) -> Self {
        Self { engine, limit, latest: Arc::default() }
    }

    /// Gives a clock to each answer of `service`.
    pub(super) fn watch<S>(
        &self,
        service: S,
    ) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send + 'static> + use<S>
    where
        S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send + 'static>,
    {
        let latest = Arc::clone(&self.latest);
        service_fn(move |request| {
            let clock = Arc::<StreamClock>::default();
            *latest.lock() = Some(Arc::clone(&clock));
            let answer = service.call(request);
            async move {
                let mut response = answer.await?;
                response.body_mut().watch(clock);
                Ok(response)
            }
        })
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        let clock = self.latest.lock().take().unwrap_or_default();
        let (engine, limit) = (self.engine.clone(), self.limit);
        tokio::spawn(WatchedStream { stream: Box::pin(stream), clock, engine, limit, stalled: None });
    }
}

/// One stream; it ends when its client has left a piece unread for `limit`, which resets the stream.
struct WatchedStream<F> {
    stream: Pin<Box<F>>,
    clock: Arc<StreamClock>,
    engine: Engine,
    limit: Duration,
    /// The piece that is unread, and the alarm for it.
    stalled: Option<(usize, Pin<Box<Sleep>>)>,
}

impl<F: Future<Output = ()>> Future for WatchedStream<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if this.stream.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let Some(unread) = this.clock.unread() else {
            this.stalled = None;
            return Poll::Pending;
        };
        if this.stalled.as_ref().is_none_or(|(piece, _)| *piece != unread) {
            this.stalled = Some((unread, Box::pin(sleep(this.limit))));
        }
        if let Some((_, alarm)) = &mut this.stalled {
            ready!(alarm.as_mut().poll(context));
        }
        this.engine.metrics().client_stalls.inc();
        tracing::info!(
            seconds = this.limit.as_secs(),
            "a client does not read an answer; its HTTP/2 stream is reset (server.writeTimeout)"
        );
        Poll::Ready(())
    }
}
