//! Websocket transport: JSON-RPC in text frames (RFC 6455), with the subprotocol `mcp`. Its handshake is an
//! HTTP request with the headers, credentials, authorities and proxies of HTTP backends.

mod handshake;
mod read_allowance;
mod reader;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use self::read_allowance::AllowedReads;
use crate::transport::endpoint::Endpoint;
use crate::transport::link_error::LinkError;
use crate::transport::mux::{Mux, QueuedMessage};

/// Bytes that one read takes; allocated once for each connection.
const READ_BUFFER_BYTES: usize = 16 * 1024;
/// Intervals of pings in which nothing arrived, after which the connection counts as half-open. More than
/// one: a server that works on a call may answer late.
const MAX_SILENT_INTERVALS: u32 = 3;
/// Time for the writer to send its close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Limits of one websocket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WebSocketLimits {
    /// Bytes of one message, however many frames it has; a longer one ends the connection.
    pub(crate) message_bytes: usize,
    /// Interval of the pings.
    pub(crate) ping_interval: Duration,
}

/// Opens the connection. The returned task reads it until it ends or `closed` is cancelled; then `mux` ends
/// with the reason.
pub(crate) async fn start(
    endpoint: Endpoint,
    limits: WebSocketLimits,
    mux: Arc<Mux>,
    to_write: mpsc::Receiver<QueuedMessage>,
    closed: CancellationToken,
) -> Result<JoinHandle<()>, LinkError> {
    let WebSocketLimits { message_bytes, ping_interval } = limits;
    let (upgraded, secrets) = handshake::open(&endpoint, &mux).await?;
    let (stream, allowance) = AllowedReads::new(TokioIo::new(upgraded), message_bytes);
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .max_message_size(Some(message_bytes))
        .max_frame_size(Some(message_bytes));
    let socket = WebSocketStream::from_raw_socket(stream, Role::Client, Some(config)).await;
    let (sink, frames) = socket.split();
    // Two tasks: a server that waits until its frames are read must not keep vmcp from reading them.
    let mut writer =
        tokio::spawn(writer::write(sink, to_write, Arc::clone(&mux), ping_interval, closed.clone()));
    let run = async move {
        let heard = AtomicBool::new(true);
        let reason = tokio::select! {
            biased;
            reason = reader::read(frames, &mux, &heard, &allowance, message_bytes, &secrets) => reason,
            () = closed.cancelled() => "stopped".to_owned(),
            reason = silence(&heard, ping_interval) => reason,
            _ = &mut writer => "writing to the websocket failed".to_owned(),
        };
        // Cancels `closed`, upon which the writer says goodbye.
        mux.end(reason);
        if !writer.is_finished() && timeout(2 * CLOSE_TIMEOUT, &mut writer).await.is_err() {
            writer.abort();
        }
    };
    Ok(tokio::spawn(run.in_current_span()))
}

/// Returns once nothing has arrived for [`MAX_SILENT_INTERVALS`], although the server was pinged.
async fn silence(heard: &AtomicBool, ping_interval: Duration) -> String {
    let mut silent = 0;
    while silent < MAX_SILENT_INTERVALS {
        sleep(ping_interval).await;
        silent = if heard.swap(false, Ordering::Relaxed) { 0 } else { silent + 1 };
    }
    format!("no answer to pings for {}", humantime::format_duration(ping_interval * MAX_SILENT_INTERVALS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_frame_in_any_interval_begins_the_count_again() {
        let (heard, interval) = (AtomicBool::new(true), Duration::from_secs(30));
        let started = tokio::time::Instant::now();
        let (reason, ()) = tokio::join!(silence(&heard, interval), async {
            sleep(3 * interval + Duration::from_secs(1)).await;
            heard.store(true, Ordering::Relaxed);
        });
        // The first interval and the fourth have a frame each; three silent ones follow.
        assert_eq!(started.elapsed(), 7 * interval);
        assert_eq!(reason, "no answer to pings for 1m 30s");
    }
}
