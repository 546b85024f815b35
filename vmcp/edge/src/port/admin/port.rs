//! [`AdminPort`]: serves the admin port on a thread of its own, within limits of its own.
//!
//! Probes and metrics are answered by this thread alone: whatever a client or a backend does to the threads
//! that serve calls, a liveness probe has its answer in time. Reports and orders (`/admin/*`) run on the
//! process's runtime: the tasks that they start outlive them, and some compute for long.
//!
//! Connections have the clocks of the client port ([`ConnectionServer`]). A connection beyond the limit
//! closes the longest idle one, so that idle connections never keep a probe out.

mod slots;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use nix::errno::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt as _;
use vmcp_config::Server;

use self::slots::{Slot, Slots};
use super::Admin;
use super::guard::audit::OperatorAddress;
use super::routes::router;
use crate::port::connection::ConnectionServer;
use crate::port::connections::refuse;
use crate::port::open_files::{SpareFiles, admin_connection_limit};
use crate::transport::http::client_body::ClientBody;
use crate::transport::http::exchange::{Arrival, Response, Service};
use crate::transport::http::respond;
use vmcp_engine::engine::Engine;

/// Threads for blocking work of the admin port's runtime.
const MAX_BLOCKING_THREADS: usize = 2;
/// Pause after a failed accept.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Idle time from which a connection gives its file descriptor to another: a probe sends its request sooner.
const MIN_IDLE: Duration = Duration::from_millis(200);
/// Interval at which a lack of file descriptors is logged.
const LOG_INTERVAL: Duration = Duration::from_mins(1);
/// Time at shutdown for requests under way to end.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(100);

/// Response to a connection beyond the limit while all others have a request under way.
const BUSY_RESPONSE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n\
    content-type: text/plain\r\ncontent-length: 44\r\n\r\nall connections of the admin port are busy.\n";

/// The admin port in service; it closes when this is dropped.
pub struct AdminPort {
    stop: DropGuard,
    ended: oneshot::Receiver<()>,
}

impl AdminPort {
    /// Serves `admin` at `listener`, which listens at `address`. Must be called on the runtime that is to run
    /// the reports.
    pub fn start(
        listener: TcpListener,
        address: SocketAddr,
        admin: Admin,
        server: &Server,
    ) -> io::Result<AdminPort> {
        let runtime =
            Builder::new_current_thread().enable_all().max_blocking_threads(MAX_BLOCKING_THREADS).build()?;
        // The socket leaves the event loop that opened it.
        let listener = listener.into_std()?;
        let stop = CancellationToken::new();
        let (end, ended) = oneshot::channel();
        let port = Port {
            engine: admin.0.engine.clone(),
            router: router(admin, address),
            reports: Handle::current(),
            server: server.clone(),
            slots: Slots::new(admin_connection_limit()),
        };
        let stopped = stop.clone();
        thread::Builder::new().name("admin".to_owned()).spawn(move || {
            if let Err(error) = runtime.block_on(port.serve(listener, stopped)) {
                tracing::error!(%error, "the admin port is closed");
            }
            runtime.shutdown_background();
            drop(end);
        })?;
        Ok(AdminPort { stop: stop.drop_guard(), ended })
    }

    /// Closes the port.
    pub async fn close(self) {
        let Self { stop, ended } = self;
        drop(stop);
        let _ = ended.await;
    }
}

/// Serves the connections, on the thread of the port.
struct Port {
    engine: Engine,
    router: Router,
    /// The runtime that runs the reports.
    reports: Handle,
    server: Server,
    slots: Arc<Slots>,
}

impl Port {
    async fn serve(&self, listener: std::net::TcpListener, stop: CancellationToken) -> io::Result<()> {
        let listener = TcpListener::from_std(listener)?;
        let mut spare = SpareFiles::default();
        spare.refill();
        let mut logged = None;
        loop {
            let accepted = tokio::select! {
                biased;
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => break,
                // A connection that ends gives back the file that it had been given.
                () = self.slots.closed() => {
                    spare.refill();
                    continue;
                }
            };
            match accepted {
                Ok((stream, _)) => self.take(stream, &stop),
                Err(error) if is_out_of_files(&error) => {
                    if !self.take_with_spare(&listener, &mut spare, &stop).await {
                        if logged.is_none_or(|logged: Instant| logged.elapsed() >= LOG_INTERVAL) {
                            logged = Some(Instant::now());
                            tracing::error!(%error, "the admin port cannot accept; raise the limit of open files");
                        }
                        sleep(ACCEPT_RETRY_DELAY).await;
                    }
                }
                Err(_) => sleep(ACCEPT_RETRY_DELAY).await,
            }
        }
        drop(listener);
        let _ = timeout(CLOSE_TIMEOUT, self.slots.emptied()).await;
        Ok(())
    }

    /// Serves a connection in a task of its own.
    fn take(&self, stream: TcpStream, stop: &CancellationToken) {
        let Some(slot) = self.slots.take() else {
            // Every connection has a request under way.
            tokio::spawn(refuse(stream, BUSY_RESPONSE));
            return;
        };
        let service = AdminService {
            router: self.router.clone(),
            reports: self.reports.clone(),
            slot: Arc::clone(&slot),
        };
        let connection = ConnectionServer::new(service, self.engine.clone(), &self.server);
        let (stop, held) = (stop.clone(), Arc::clone(&slot));
        let task = tokio::spawn(async move {
            connection.serve(stream, stop).await;
            drop(held);
        });
        slot.runs(task.abort_handle());
    }

    /// Accepts a connection without a file descriptor: a spare file gives its own, or a connection that is
    /// idle. Returns false if neither could.
    async fn take_with_spare(
        &self,
        listener: &TcpListener,
        spare: &mut SpareFiles,
        stop: &CancellationToken,
    ) -> bool {
        if !spare.release() {
            if !self.slots.close_idle(MIN_IDLE) {
                return false;
            }
            // The closed connection is dropped when its task is polled.
            yield_now().await;
        }
        // Without a descriptor the system refuses before it looks for a connection, so there may be none.
        match futures::poll!(pin!(listener.accept())) {
            Poll::Ready(Ok((stream, _))) => self.take(stream, stop),
            Poll::Ready(Err(_)) | Poll::Pending => spare.refill(),
        }
        true
    }
}

fn is_out_of_files(error: &io::Error) -> bool {
    let error = error.raw_os_error().map(Errno::from_raw);
    matches!(error, Some(Errno::EMFILE | Errno::ENFILE))
}

/// Serves the requests of one connection.
#[derive(Clone)]
struct AdminService {
    router: Router,
    reports: Handle,
    slot: Arc<Slot>,
}

impl Service<Arrival> for AdminService {
    async fn call(&self, arrival: Arrival) -> Response {
        let _busy = self.slot.begin();
        let Arrival { mut head, body, reading: _reading, from, .. } = arrival;
        head.extensions.insert(OperatorAddress(from));
        let path = head.uri.path();
        let is_report = path.starts_with("/admin/") || path.starts_with("/console");
        let answer = answer(self.router.clone(), Request::from_parts(*head, Body::new(body)));
        if !is_report {
            return answer.await;
        }
        let task = AbortOnDropHandle::new(self.reports.spawn(answer));
        task.await.unwrap_or_else(|_| respond::empty(StatusCode::INTERNAL_SERVER_ERROR))
    }
}

/// Lets the router answer. All its answers are whole.
async fn answer(router: Router, request: Request<Body>) -> Response {
    let Ok(response) = router.oneshot(request).await;
    let (head, body) = response.into_parts();
    match body.collect().await {
        Ok(body) => Response::from_parts(head, ClientBody::from_content(body.to_bytes())),
        Err(_) => respond::empty(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream as StdStream;

    use super::*;
    use vmcp_engine::testing::{KEYWORDS, engine};

    fn connect(address: SocketAddr) -> StdStream {
        let stream = StdStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = connect(address);
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[tokio::test]
    async fn probes_are_answered_while_the_runtime_is_blocked_and_idle_connections_fill_the_port() {
        let engine = engine(KEYWORDS).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = engine.snapshot().config.server.clone();
        let port = AdminPort::start(listener, address, Admin::new(engine, None), &server).unwrap();
        // Nothing from here on lets this runtime go on: a stream that starves it would do the same.
        let openings = ["", "GET /healthz HTT", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"];
        let idle: Vec<_> = (0..4 * admin_connection_limit())
            .map(|n| {
                let mut stream = connect(address);
                let _ = stream.write_all(openings[n % openings.len()].as_bytes());
                stream
            })
            .collect();
        for path in ["/healthz", "/readyz", "/metrics", "/"] {
            let answer = ask(address, path);
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {answer}");
        }
        let mut oldest = &idle[0];
        assert!(matches!(oldest.read(&mut [0; 10]), Ok(0) | Err(_)), "the oldest gives way");
        port.close().await;
        assert!(StdStream::connect(address).is_err(), "the port is closed");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn reports_run_on_the_runtime_of_the_process() {
        let engine = engine(KEYWORDS).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = engine.snapshot().config.server.clone();
        let port = AdminPort::start(listener, address, Admin::new(engine, None), &server).unwrap();
        let answer = tokio::task::spawn_blocking(move || ask(address, "/admin/status")).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        port.close().await;
    }
}
