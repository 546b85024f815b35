//! The events port: `GET /ws/events`, a websocket that tells viewers of hooks, changed definitions and states
//! of backends.
//!
//! | module | holds |
//! |---|---|
//! | `viewer` | who may see which events, and which of them were asked for |
//! | `stream` | the events of one viewer, until its end |
//!
//! The rules of the admin port hold: hosts and origins, and its tokens. Requests end at
//! [`HANDSHAKE_TIMEOUT`], and viewers have places of their own: strangers end no viewer's stream. Strangers
//! that hold all [`MAX_REQUESTS`] places delay a new viewer.

mod stream;
mod viewer;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router, middleware};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use self::viewer::{Viewer, ViewerRole};
use super::admin::Admin;
use super::admin::guard::audit::OperatorAddress;
use super::admin::guard::{AdminGuard, from_known_host};
use super::connections::refuse;

/// Path of the websocket.
const PATH: &str = "/ws/events";
/// Time limit of a connection, up to the end of the handshake. Keep-alive stays on: without it, hyper
/// replaces `Connection: Upgrade`.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests at a time; a further connection is answered with 503.
const MAX_REQUESTS: usize = 64;
/// Viewers at a time; a further one is answered with 503.
const MAX_VIEWERS: usize = 64;
/// Most bytes of a request's head.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// Most bytes of a message of a viewer, who has nothing to say.
const MAX_MESSAGE_BYTES: usize = 1024;
/// Most bytes that wait in memory for a viewer's socket.
const MAX_UNWRITTEN_BYTES: usize = 256 * 1024;
/// Pause after a failed accept.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Time at shutdown for viewers to be told.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Response to a connection beyond [`MAX_REQUESTS`].
const BUSY_RESPONSE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n\
    content-length: 0\r\n\r\n";
const UNAUTHORIZED_TEXT: &str = "events need one of server.adminTokens, or of server.metricsTokens, as bearer token; \
    without server.adminTokens they are served on loopback addresses only, and not through a proxy\n";
const FULL_TEXT: &str = "64 viewers watch the events already, the limit; try again once one has left\n";

/// The events port in service; it closes when this is dropped.
pub(super) struct EventsPort {
    stop: DropGuard,
    viewers: TaskTracker,
}

/// State of the port; cheap to clone.
#[derive(Clone)]
struct PortState {
    guard: AdminGuard,
    /// Places of viewers.
    places: Arc<Semaphore>,
    viewers: TaskTracker,
    stop: CancellationToken,
}

impl EventsPort {
    /// Serves the events of the engine of `admin` at `listener`, which listens at `address`.
    pub(super) fn start(listener: TcpListener, address: SocketAddr, admin: Admin) -> EventsPort {
        let (stop, viewers) = (CancellationToken::new(), TaskTracker::new());
        let state = PortState {
            guard: AdminGuard::new(admin, address),
            places: Arc::new(Semaphore::new(MAX_VIEWERS)),
            viewers: viewers.clone(),
            stop: stop.clone(),
        };
        tokio::spawn(serve(listener, router(state), stop.clone()));
        EventsPort { stop: stop.drop_guard(), viewers }
    }

    /// Closes the port, and tells the viewers.
    pub(super) async fn close(self) {
        let EventsPort { stop, viewers } = self;
        drop(stop);
        viewers.close();
        let _ = timeout(CLOSE_TIMEOUT, viewers.wait()).await;
    }
}

fn router(state: PortState) -> Router {
    let guard = state.guard.clone();
    Router::new()
        .route(PATH, get(open))
        .with_state(state)
        .layer(middleware::from_fn_with_state(guard, from_known_host))
}

/// Accepts connections until `stop`.
async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let requests = Arc::new(Semaphore::new(MAX_REQUESTS));
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, from)) = accepted else {
            sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        let Ok(place) = Arc::clone(&requests).try_acquire_owned() else {
            tokio::spawn(refuse(stream, BUSY_RESPONSE));
            continue;
        };
        let router = router.clone().layer(Extension(OperatorAddress(from.ip())));
        tokio::spawn(serve_request(stream, router, place));
    }
}

/// Serves the requests of a connection, of which the last one may become a websocket.
async fn serve_request(stream: TcpStream, router: Router, place: OwnedSemaphorePermit) {
    // Events are small, and must not wait for delayed acknowledgements. A refused option costs time alone.
    let _ = stream.set_nodelay(true);
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HANDSHAKE_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .with_upgrades();
    // A client that goes away, or is too slow, ends alone.
    let _ = timeout(HANDSHAKE_TIMEOUT, serving).await;
    drop(place);
}

/// Answers `GET /ws/events`.
async fn open(State(state): State<PortState>, mut request: Request) -> Response {
    let guard = &state.guard;
    let Some(role) = ViewerRole::of(guard, request.headers()) else {
        return guard.turn_away(request, UNAUTHORIZED_TEXT).await;
    };
    let areas = match viewer::areas(request.uri().query().unwrap_or_default()) {
        Ok(areas) => areas,
        Err(message) => return (StatusCode::BAD_REQUEST, message + "\n").into_response(),
    };
    let response = match create_response_with_body(&request, axum::body::Body::empty) {
        Ok(response) => response,
        Err(error) => {
            let upgrade = [(header::UPGRADE, "websocket")];
            let words = format!("this path speaks websockets only: {error}\n");
            return (StatusCode::UPGRADE_REQUIRED, upgrade, words).into_response();
        }
    };
    let Ok(place) = Arc::clone(&state.places).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "60")], FULL_TEXT).into_response();
    };
    let viewer = Viewer { role, areas, headers: request.headers().clone() };
    let upgrade = hyper::upgrade::on(&mut request);
    // From now on, so that a viewer that sees its handshake answered misses no event after it.
    let events = guard.admin.0.engine.events().subscribe();
    let task = state.viewers.clone();
    task.spawn(async move {
        let Ok(Ok(upgraded)) = timeout(HANDSHAKE_TIMEOUT, upgrade).await else { return };
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES))
            .write_buffer_size(0)
            .max_write_buffer_size(MAX_UNWRITTEN_BYTES);
        let io = TokioIo::new(upgraded);
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        stream::run(socket, &viewer, &state.guard, events, &state.stop).await;
        drop(place);
    });
    response
}
