//! Limits and intervals of a backend's connection, each with its default.

use std::sync::Arc;
use std::time::Duration;

use crate::http_client::HttpClient;
use crate::policy::breaker::BreakerSettings;
use crate::request::Downstream;
use crate::request::event::NoDownstream;

/// How connections behave. Clone one value for all backends: they share its pool of HTTP connections.
#[derive(Clone, Debug)]
pub struct BackendSettings {
    /// Time for one attempt to connect, handshake included (GOB-21).
    pub connection_timeout: Duration,
    /// Attempts after the first one before the backend counts as failed (GOB-19).
    pub max_connection_retries: u32,
    /// The pause after a first failure; it doubles up to 16 times this (GOB-18).
    pub first_pause: Duration,
    /// A failed backend is tried again this often, and at once when somebody calls it.
    pub retry_failed_every: Duration,
    /// Nothing connects before the first use, as long as cached definitions exist (GOB-15).
    pub lazy_connect: bool,
    /// When calls are refused without trying (GOB-20).
    pub breaker: BreakerSettings,
    /// While a lost connection is being replaced, calls fail at once instead of waiting for it.
    pub fail_fast: bool,
    /// A child process is as if it had been started in our place: it has our whole environment, and what it writes to its
    /// standard error goes to ours as it is, not to the log.
    pub in_our_place: bool,
    /// Connected backends are listed again this often (R022-43).
    pub refresh_interval: Duration,
    /// Changes announced within this time of each other cause one listing.
    pub refresh_debounce: Duration,
    /// Time for one listing of everything, all pages included.
    pub list_timeout: Duration,
    /// A call that keeps reporting progress is cut after this time nevertheless (GMT-23).
    pub max_call: Duration,
    /// Largest message accepted from a backend, in bytes.
    pub max_message_bytes: usize,
    /// How long an HTTP server may take to answer the question for its era before it is taken for a legacy one.
    pub http_probe_timeout: Duration,
    /// The same for a stdio server. Short, because old servers ignore unknown methods before `initialize`.
    pub stdio_probe_timeout: Duration,
    /// Time for calls in flight to finish when a backend is stopped.
    pub drain_timeout: Duration,
    /// Time for a child process to exit by itself, and again after SIGTERM, before it is killed.
    pub kill_grace: Duration,
    /// Sessions kept at one legacy backend that keeps state, one for each client session. Of more, the one that has been
    /// idle longest is ended.
    pub max_sessions: usize,
    /// A session there that has not been used for this long is ended, unless its client listens.
    pub session_idle: Duration,
    /// Takes what backends send outside of any request.
    pub downstream: Arc<dyn Downstream>,
    /// Our version as told to backends in `clientInfo`.
    pub client_version: String,
    /// The pool of HTTP connections.
    pub http: HttpClient,
}

impl Default for BackendSettings {
    fn default() -> Self {
        Self {
            connection_timeout: Duration::from_secs(30),
            max_connection_retries: 3,
            first_pause: Duration::from_secs(1),
            retry_failed_every: Duration::from_secs(30),
            lazy_connect: true,
            breaker: BreakerSettings::default(),
            fail_fast: false,
            in_our_place: false,
            refresh_interval: Duration::from_mins(5),
            refresh_debounce: Duration::from_millis(200),
            list_timeout: Duration::from_mins(1),
            max_call: Duration::from_mins(10),
            max_message_bytes: 64 * 1024 * 1024,
            http_probe_timeout: Duration::from_secs(5),
            stdio_probe_timeout: Duration::from_secs(2),
            drain_timeout: Duration::from_secs(10),
            kill_grace: Duration::from_secs(2),
            max_sessions: 10_000,
            session_idle: Duration::from_mins(30),
            downstream: Arc::new(NoDownstream),
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
            http: HttpClient::default(),
        }
    }
}
