//! The events of one viewer. A viewer that reads too slowly is cut off and counted: dropping single events
//! would leave it with a gap that nothing tells it of.

use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_util::sync::CancellationToken;
use vmcp_engine::metrics::Metrics;
use vmcp_engine::telemetry::server_events::{EventArea, ServerEvent};

use super::viewer::{Viewer, ViewerRole};
use crate::port::admin::guard::AdminGuard;

/// Interval of pings; a viewer that was silent since the last one is gone.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Time that a message may wait for the viewer to read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the close frame to be sent.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Reason for the end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The viewer closed it, or its connection broke.
    Gone,
    /// The viewer did not read in time, or answered no ping.
    TooSlow,
    /// The viewer sent a message.
    Spoke,
    /// The viewer's token has left the configuration.
    Withdrawn,
    /// The server shuts down.
    Away,
}

impl End {
    /// Returns what the viewer is told.
    fn close_frame(self) -> Option<CloseFrame> {
        let (code, reason) = match self {
            End::Gone => return None,
            End::TooSlow => (CloseCode::Policy, "events were not read in time; connect again"),
            End::Spoke => (CloseCode::Policy, "this stream takes no messages"),
            End::Withdrawn => (CloseCode::Policy, "the token is no longer configured"),
            End::Away => (CloseCode::Away, "the server shuts down"),
        };
        Some(CloseFrame { code, reason: reason.into() })
    }
}

/// Counts a viewer while it watches.
struct Watching<'a>(&'a Metrics);

impl<'a> Watching<'a> {
    fn begin(metrics: &'a Metrics) -> Watching<'a> {
        metrics.event_viewers.inc();
        Watching(metrics)
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.event_viewers.dec();
    }
}

/// Tells a viewer of `events` until it leaves or is cut off, or `stop` is cancelled.
pub(super) async fn run<S: AsyncRead + AsyncWrite + Unpin>(
    mut socket: WebSocketStream<S>,
    viewer: &Viewer,
    guard: &AdminGuard,
    events: broadcast::Receiver<ServerEvent>,
    stop: &CancellationToken,
) {
    let metrics = guard.admin.0.engine.metrics();
    let _watching = Watching::begin(metrics);
    let end = watch(&mut socket, viewer, guard, events, stop).await;
    if end == End::TooSlow {
        metrics.event_viewers_cut_off.inc();
        tracing::info!("a viewer did not read events in time and was cut off; it may connect again");
    }
    if let Some(frame) = end.close_frame() {
        // A viewer that does not read is not told.
        let _ = timeout(CLOSE_TIMEOUT, socket.close(Some(frame))).await;
    }
}

async fn watch<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<S>,
    viewer: &Viewer,
    guard: &AdminGuard,
    mut events: broadcast::Receiver<ServerEvent>,
    stop: &CancellationToken,
) -> End {
    let mut configurations = guard.admin.0.engine.configurations();
    // A reload during the handshake came before this subscription, which tells of later ones only.
    if ViewerRole::of(guard, &viewer.headers) != Some(viewer.role) {
        return End::Withdrawn;
    }
    let mut pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
    let mut is_alive = true;
    let mut next = Some(Message::text(subscribed(viewer)));
    loop {
        if let Some(message) = next.take() {
            match timeout(WRITE_TIMEOUT, socket.send(message)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return End::Gone,
                Err(_) => return End::TooSlow,
            }
        }
        tokio::select! {
            () = stop.cancelled() => return End::Away,
            event = events.recv() => match event {
                Ok(event) => next = viewer.sees(event.area).then(|| Message::text(&*event.json)),
                Err(RecvError::Lagged(_)) => return End::TooSlow,
                Err(RecvError::Closed) => return End::Away,
            },
            frame = socket.next() => match frame {
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => is_alive = true,
                Some(Ok(Message::Close(_)) | Err(_)) | None => return End::Gone,
                Some(Ok(Message::Text(_) | Message::Binary(_) | Message::Frame(_))) => return End::Spoke,
            },
            _ = pings.tick() => {
                if !std::mem::take(&mut is_alive) {
                    return End::TooSlow;
                }
                next = Some(Message::Ping(Bytes::new()));
            }
            changed = configurations.changed() => {
                if changed.is_err() {
                    return End::Away;
                }
                if ViewerRole::of(guard, &viewer.headers) != Some(viewer.role) {
                    return End::Withdrawn;
                }
            }
        }
    }
}

/// Writes the first message: the areas whose events follow.
fn subscribed(viewer: &Viewer) -> String {
    let areas: Vec<_> = EventArea::ALL.into_iter().filter(|area| viewer.sees(*area)).collect();
    let areas: Vec<_> = areas.into_iter().map(EventArea::as_str).collect();
    json!({ "type": "subscribed", "areas": areas }).to_string()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;
    use tokio::io::duplex;
    use tokio_tungstenite::tungstenite::protocol::Role;
    use vmcp_backend::BackendState;
    use vmcp_engine::engine::Engine;
    use vmcp_engine::testing::{KEYWORDS, engine};

    use super::*;
    use crate::port::admin::Admin;
    use crate::port::events::viewer;

    /// Runs the stream of a viewer, and returns the messages that the viewer got until the end.
    async fn watched(engine: &Engine, query: &str, stop: CancellationToken, speaks: bool) -> Vec<Message> {
        let guard = AdminGuard::new(Admin::new(engine.clone(), None), ([127, 0, 0, 1], 8766).into());
        let areas = viewer::areas(query).unwrap();
        let viewer = Viewer { role: ViewerRole::Operator, areas, headers: HeaderMap::new() };
        let events = engine.events().subscribe();
        for n in 0..3 {
            engine.events().state(&format!("s{n}"), BackendState::Failed);
        }
        let (here, there) = duplex(64 * 1024);
        let server = WebSocketStream::from_raw_socket(here, Role::Server, None).await;
        let mut client = WebSocketStream::from_raw_socket(there, Role::Client, None).await;
        if speaks {
            client.send(Message::text("hello")).await.unwrap();
        }
        let watching = run(server, &viewer, &guard, events, &stop);
        let reading = async {
            let mut messages = Vec::new();
            while let Some(Ok(message)) = client.next().await {
                let is_last_state = message.to_text().is_ok_and(|text| text.contains("s2"));
                messages.push(message);
                if is_last_state {
                    stop.cancel();
                }
            }
            messages
        };
        tokio::join!(watching, reading).1
    }

    fn reason(messages: &[Message]) -> (CloseCode, String) {
        let Some(Message::Close(Some(frame))) = messages.last() else { panic!("{messages:?}") };
        (frame.code, frame.reason.to_string())
    }

    #[tokio::test]
    async fn a_viewer_gets_its_areas_until_the_server_shuts_down() {
        let engine = engine(KEYWORDS).await;
        let messages = watched(&engine, "areas=backends", CancellationToken::new(), false).await;
        assert_eq!(messages[0], Message::text(r#"{"type":"subscribed","areas":["backends"]}"#));
        assert_eq!(messages.len(), 5, "{messages:?}");
        assert_eq!(reason(&messages), (CloseCode::Away, "the server shuts down".to_owned()));
        assert!(engine.render_metrics().contains("vmcp_event_viewers 0\n"));
    }

    #[tokio::test]
    async fn a_token_that_was_withdrawn_during_the_handshake_ends_the_stream() {
        let engine = engine(KEYWORDS).await;
        let guard = AdminGuard::new(Admin::new(engine.clone(), None), ([127, 0, 0, 1], 8766).into());
        // The role that the request had before the reload.
        let areas = EventArea::ALL.to_vec();
        let viewer = Viewer { role: ViewerRole::Scraper, areas, headers: HeaderMap::new() };
        let (here, there) = duplex(64 * 1024);
        let server = WebSocketStream::from_raw_socket(here, Role::Server, None).await;
        let client = WebSocketStream::from_raw_socket(there, Role::Client, None).await;
        let (events, stop) = (engine.events().subscribe(), CancellationToken::new());
        let watching = run(server, &viewer, &guard, events, &stop);
        let ((), messages) = tokio::join!(watching, client.collect::<Vec<_>>());
        let messages: Vec<_> = messages.into_iter().map_while(Result::ok).collect();
        assert_eq!(reason(&messages), (CloseCode::Policy, "the token is no longer configured".to_owned()));
    }

    #[tokio::test]
    async fn a_viewer_that_speaks_is_sent_away() {
        let engine = engine(KEYWORDS).await;
        let messages = watched(&engine, "areas=hooks", CancellationToken::new(), true).await;
        assert_eq!(reason(&messages), (CloseCode::Policy, "this stream takes no messages".to_owned()));
    }

    #[tokio::test]
    async fn a_viewer_that_is_too_far_behind_is_cut_off_and_counted() {
        let engine = engine(KEYWORDS).await;
        let guard = AdminGuard::new(Admin::new(engine.clone(), None), ([127, 0, 0, 1], 8766).into());
        let areas = EventArea::ALL.to_vec();
        let viewer = Viewer { role: ViewerRole::Operator, areas, headers: HeaderMap::new() };
        let events = engine.events().subscribe();
        for _ in 0..2_000 {
            engine.events().state("s", BackendState::Failed);
        }
        let (here, there) = duplex(64 * 1024);
        let server = WebSocketStream::from_raw_socket(here, Role::Server, None).await;
        let client = WebSocketStream::from_raw_socket(there, Role::Client, None).await;
        let stop = CancellationToken::new();
        let watching = run(server, &viewer, &guard, events, &stop);
        let ((), messages) = tokio::join!(watching, client.collect::<Vec<_>>());
        let messages: Vec<_> = messages.into_iter().map_while(Result::ok).collect();
        assert_eq!(reason(&messages).0, CloseCode::Policy);
        assert!(engine.render_metrics().contains("vmcp_event_viewers_cut_off_total 1\n"));
    }
}
