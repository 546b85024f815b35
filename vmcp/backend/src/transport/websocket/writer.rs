//! Writes the frames of a websocket, and its pings.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Sink, SinkExt as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::tungstenite::protocol::frame::Utf8Bytes;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_util::sync::CancellationToken;

use super::CLOSE_TIMEOUT;
use crate::transport::link_error::LinkError;
use crate::transport::mux::{Mux, QueuedMessage};

/// Writes queued messages one after the other until `closed` is cancelled or writing fails; then sends a
/// close frame.
pub(super) async fn write(
    mut sink: impl Sink<Message, Error = Error> + Unpin,
    mut messages: mpsc::Receiver<QueuedMessage>,
    mux: Arc<Mux>,
    ping_interval: Duration,
    closed: CancellationToken,
) {
    let mut pings = interval_at(Instant::now() + ping_interval, ping_interval);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let frame = tokio::select! {
            () = closed.cancelled() => break,
            queued = messages.recv() => {
                let Some(QueuedMessage { id, message }) = queued else { break };
                let Ok(text) = Utf8Bytes::try_from(message) else {
                    if let Some(id) = id {
                        mux.fail(id, LinkError::Unsendable("the message is not UTF-8".to_owned()));
                    }
                    continue;
                };
                Message::Text(text)
            }
            _ = pings.tick() => Message::Ping(Bytes::new()),
        };
        // A server that does not read must not hold up the end.
        if !matches!(closed.run_until_cancelled(sink.send(frame)).await, Some(Ok(()))) {
            break;
        }
    }
    let _ = timeout(CLOSE_TIMEOUT, sink.close()).await;
}
