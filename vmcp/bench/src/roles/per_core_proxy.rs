//! Reverse proxy of one thread a core: the cost of a bare HTTP hop in which no thread wakes another.
//!
//! An accepted connection is handed to one of the threads, round robin, and stays there. Each thread has its
//! own runtime and its own idle upstream connections; a connection is polled by the request that uses it.

use std::cell::RefCell;
use std::future::{Future as _, poll_fn};
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::num::NonZero;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::thread;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::{LocalSet, spawn_local};

use super::role_process;

/// An upstream connection that no task drives.
struct Upstream {
    sender: SendRequest<Incoming>,
    connection: Connection<TokioIo<TcpStream>, Incoming>,
}

/// Idle upstream connections of one thread.
struct UpstreamPool {
    address: SocketAddr,
    idle: RefCell<Vec<Upstream>>,
}

/// Body of an answer; polling it drives the upstream connection, which returns to the pool at the end.
struct PolledBody {
    body: Incoming,
    ended: bool,
    upstream: Option<Upstream>,
    pool: Rc<UpstreamPool>,
}

/// Runs the proxy until killed.
pub(crate) fn run(listen: SocketAddr, upstream: SocketAddr) -> Result<()> {
    let listener = StdListener::bind(listen)?;
    role_process::announce_address(listener.local_addr()?)?;
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let workers: Vec<_> = (0..cores)
        .map(|_| {
            let (sender, accepted) = unbounded_channel();
            thread::spawn(move || run_worker(accepted, upstream));
            sender
        })
        .collect();
    for (stream, worker) in listener.incoming().zip(workers.iter().cycle()) {
        worker.send(stream?).context("a thread has ended")?;
    }
    Ok(())
}

fn run_worker(mut accepted: UnboundedReceiver<StdStream>, address: SocketAddr) -> Result<()> {
    let pool = Rc::new(UpstreamPool { address, idle: RefCell::default() });
    let runtime = Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        while let Some(stream) = accepted.recv().await {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let stream = TokioIo::new(TcpStream::from_std(stream)?);
            let pool = Rc::clone(&pool);
            let forward = service_fn(move |request| forward(Rc::clone(&pool), request));
            // A broken connection concerns only its client.
            spawn_local(hyper::server::conn::http1::Builder::new().serve_connection(stream, forward));
        }
        Ok(())
    })
}

async fn forward(pool: Rc<UpstreamPool>, request: Request<Incoming>) -> Result<Response<PolledBody>> {
    let mut upstream = pool.take().await?;
    let mut answer = pin!(upstream.sender.send_request(request));
    let answer = poll_fn(|context| {
        // The request is in the connection's queue: driving the connection first writes it at once.
        _ = upstream.drive(context);
        answer.as_mut().poll(context)
    })
    .await?;
    Ok(answer.map(|body| PolledBody { ended: body.is_end_stream(), body, upstream: Some(upstream), pool }))
}

impl Upstream {
    /// Drives the connection; ready once it is closed.
    fn drive(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.connection).poll(context).map(|_| ())
    }
}

impl UpstreamPool {
    /// Returns an idle connection that is still open, else a new one.
    async fn take(&self) -> Result<Upstream> {
        loop {
            let Some(mut upstream) = self.idle.borrow_mut().pop() else { break };
            if upstream.drive(&mut Context::from_waker(Waker::noop())).is_pending() {
                return Ok(upstream);
            }
        }
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Upstream { sender, connection })
    }
}

impl Body for PolledBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let mut frame = Pin::new(&mut this.body).poll_frame(context);
        if frame.is_pending()
            && let Some(upstream) = &mut this.upstream
        {
            _ = upstream.drive(context);
            frame = Pin::new(&mut this.body).poll_frame(context);
        }
        this.ended = matches!(frame, Poll::Ready(None)) || this.body.is_end_stream();
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for PolledBody {
    fn drop(&mut self) {
        let Some(mut upstream) = self.upstream.take().filter(|_| self.ended) else { return };
        // One more poll takes the connection from the end of the answer to idle.
        let open = upstream.drive(&mut Context::from_waker(Waker::noop())).is_pending();
        if open && upstream.sender.is_ready() {
            self.pool.idle.borrow_mut().push(upstream);
        }
    }
}
