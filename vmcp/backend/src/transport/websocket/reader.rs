//! Reads the frames of a websocket.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use tokio::task::coop;
use tokio::time::sleep;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use vmcp_error_chain::error_chain;

use super::read_allowance::ReadAllowance;
use crate::transport::body::{FillerLimit, PAUSE};
use crate::transport::link_error::{Secrets, ServerWords};
use crate::transport::mux::Mux;

/// Messages outside of JSON-RPC after which reading pauses for [`STRAY_PAUSE`]: backpressure for a server
/// that floods such messages.
const STRAY_MESSAGES: u32 = 64;
const STRAY_PAUSE: Duration = Duration::from_millis(1);
/// Bytes that a control frame counts in [`FillerLimit`] besides its payload, for its header and the answer.
const CONTROL_FRAME_BYTES: usize = 64;

/// Hands every message to the multiplexer. Returns the reason of the end, in which `secrets` are masked.
pub(super) async fn read(
    mut frames: impl Stream<Item = Result<Message, Error>> + Unpin,
    mux: &Mux,
    heard: &AtomicBool,
    allowance: &ReadAllowance,
    limit: usize,
    secrets: &Secrets,
) -> String {
    let mut filler = FillerLimit::new(Instant::now());
    let mut strays = 0_u32;
    loop {
        // One buffer may hold thousands of frames: other tasks and timers have their turn between them.
        coop::consume_budget().await;
        let message = match frames.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => return broken(error, limit),
            None => return "the server closed the connection".to_owned(),
        };
        heard.store(true, Ordering::Relaxed);
        let bytes = match message {
            Message::Text(text) => Bytes::from(text),
            // Not what the subprotocol wants, and harmless.
            Message::Binary(bytes) => bytes,
            Message::Close(frame) => return closed(frame.as_ref(), secrets),
            Message::Ping(payload) | Message::Pong(payload) => {
                let bytes = payload.len() + CONTROL_FRAME_BYTES;
                allowance.give_back(bytes);
                if let Err(flood) = filler.take(bytes, 0) {
                    return flood.detail();
                }
                if filler.take_turn() {
                    sleep(PAUSE).await;
                }
                continue;
            }
            // Sent only, never read.
            Message::Frame(_) => continue,
        };
        allowance.refill();
        if let Err(why) = mux.try_receive(&bytes)
            && !mux.refuse_bytes(&bytes)
        {
            mux.ignore(&why.to_string(), &bytes);
            strays = strays.wrapping_add(1);
            if strays.is_multiple_of(STRAY_MESSAGES) {
                sleep(STRAY_PAUSE).await;
            }
        }
    }
}

fn broken(error: Error, limit: usize) -> String {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { .. }) => {
            format!("the server sent a message longer than the limit of {limit} bytes")
        }
        other => error_chain(&other),
    }
}

fn closed(frame: Option<&CloseFrame>, secrets: &Secrets) -> String {
    let Some(frame) = frame else { return "the server closed the connection".to_owned() };
    let said = ServerWords::new(frame.reason.as_bytes(), secrets);
    format!("the server closed the connection with code {}{said}", u16::from(frame.code))
}
