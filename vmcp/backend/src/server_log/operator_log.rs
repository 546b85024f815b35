//! [`OperatorLog`]: writes log messages of a backend that belong to no client to the operator's log, folded
//! as the lines of standard error are.

use std::time::Instant;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use vmcp_config::KnownSecrets;
use vmcp_json::object::Object;
use vmcp_wire::level::Level;

use crate::server_log::log_allowance::{LineFate, LogAllowance};
use crate::server_log::log_fold::{LinePlace, LogFold};

/// Characters of a message that are written; the rest is cut off.
const MAX_TEXT: usize = 500;
/// Bytes of a line in the log besides its text.
const LINE_BYTES: usize = 150;

/// Log messages of one backend, whichever of its connections they came on.
#[derive(Debug)]
pub(crate) struct OperatorLog(Mutex<Bounds>);

#[derive(Debug)]
struct Bounds {
    fold: LogFold,
    /// Bounds the bytes that are written at debug level too.
    allowance: LogAllowance,
}

impl Default for OperatorLog {
    fn default() -> Self {
        Self(Mutex::new(Bounds { fold: LogFold::default(), allowance: LogAllowance::new(Instant::now()) }))
    }
}

impl OperatorLog {
    /// Writes a message without the secrets in it. Messages from `warning` on are logged as information, up
    /// to some in a burst; all others are logged for debugging, up to some bytes a second.
    pub(crate) fn write(&self, params: Option<&RawValue>, secrets: &KnownSecrets) {
        let Some(params) = params.and_then(|params| Object::parse(params).ok()) else { return };
        let level = params.get_str("level").unwrap_or_default();
        let is_warning = Level::parse(&level).is_some_and(|level| level >= Level::Warning);
        let place = if is_warning { self.0.lock().fold.place(Instant::now()) } else { LinePlace::Folded };
        let is_logged = matches!(place, LinePlace::Logged { .. });
        if !is_logged {
            if place == LinePlace::FirstFolded {
                tracing::info!(
                    target: "vmcp_backend::server_log",
                    "more messages follow; --log-level info,vmcp_backend::server_log=debug shows them"
                );
            }
            if !tracing::enabled!(target: "vmcp_backend::server_log", tracing::Level::DEBUG) {
                return;
            }
        }
        let text = params.text("data").unwrap_or_default();
        let text: String = secrets.mask(text).chars().take(MAX_TEXT).collect();
        let fate = self.0.lock().allowance.take(text.len() + LINE_BYTES, Instant::now());
        let LineFate::Logged { held_back } = fate else { return };
        if held_back > 0 {
            tracing::warn!(held_back, "the server sent too many log messages; some were left out");
        }
        match place {
            LinePlace::Logged { folded } => {
                if folded > 0 {
                    tracing::info!(
                        target: "vmcp_backend::server_log",
                        folded, "messages before this one were logged at debug level only"
                    );
                }
                tracing::info!(target: "vmcp_backend::server_log", level = %level, "{text}");
            }
            LinePlace::FirstFolded | LinePlace::Folded => {
                tracing::debug!(target: "vmcp_backend::server_log", level = %level, "{text}");
            }
        }
    }
}
