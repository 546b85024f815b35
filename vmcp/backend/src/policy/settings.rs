//! Limits and intervals of a backend's connection, each with its default.

use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::http_client::HttpClient;
use crate::policy::breaker::BreakerSettings;
use crate::policy::byte_budget::ByteBudget;
use crate::policy::session_listing_count::SessionListingCount;
use crate::program::orphan_guard::OrphanGuard;
use crate::program::package_runner::PinnedPrograms;
use crate::request::connection_observer::NoConnectionObserver;
use crate::request::event::NoDownstream;
use crate::request::{ConnectionObserver, Downstream, SharedCredentials};

/// Settings of backends. Clone one value for all of them: they share its pool of HTTP connections.
#[derive(Clone, Debug)]
pub struct BackendSettings {
    /// Time for one attempt to connect, handshake included; `connectionTimeout` of a backend's configuration
    /// replaces it.
    pub connection_timeout: Duration,
    /// Attempts after the first one before the backend counts as failed.
    pub max_connection_retries: u32,
    /// The pause after a first failure: the base of the exponential [`backoff`](crate::backoff), which ends
    /// at 16 times this.
    pub first_pause: Duration,
    /// Pause before a failed backend is tried again, for a program doubled with each failure in a row, up to
    /// 16 times this; a call tries at once.
    pub retry_failed_every: Duration,
    /// Slots for child processes that are being started, handshake included; a start beyond them waits, and
    /// its `connection_timeout` runs from its own slot on.
    pub starts: Arc<Semaphore>,
    /// Time without CPU use after which a program that is being started gives its slot to another one, and
    /// counts as hanging if its time limit has passed.
    pub idle_start_after: Duration,
    /// True if nothing connects before the first use, as long as cached definitions exist.
    pub lazy_connect: bool,
    /// Time after the start at which a backend with cached definitions connects although no call needed it:
    /// its definitions may have changed while vmcp was down.
    pub revalidate_after: Duration,
    /// Limits of the circuit breaker, which refuses calls without trying.
    pub breaker: BreakerSettings,
    /// True if calls fail at once while a lost connection is being replaced; false if they wait for it.
    pub fail_fast: bool,
    /// True if a child process is to be as if it had been started in vmcp's place: it has vmcp's whole
    /// environment, and its standard error goes to vmcp's as it is, not to the log.
    pub in_our_place: bool,
    /// Mark in the definitions of vmcp's own tools. A backend whose tools carry it leads back to this vmcp,
    /// and is not listed: the catalog would grow with each round.
    pub own_mark: Option<Arc<str>>,
    /// Digest of the configuration that is served, in [`SERVED_VARIABLE`] of programs.
    pub served: Option<Arc<str>>,
    /// Ends the process groups of programs if this process is killed.
    pub orphan_guard: Option<Arc<OrphanGuard>>,
    /// Programs that are started in place of the package runners that installed them; `None`: runners start
    /// each program.
    pub pinned_programs: Option<PinnedPrograms>,
    /// Interval at which connected backends are listed again.
    pub refresh_interval: Duration,
    /// Interval at which those are listed again that announce no changes, or none that is heard; at most
    /// [`Self::refresh_interval`].
    pub unheard_refresh_interval: Duration,
    /// Time without a call after which a program is stopped until the next one; zero: never. The backend's
    /// own `idleTimeout` replaces it.
    pub idle_timeout: Duration,
    /// Longest start of a program that [`Self::idle_timeout`] stops: the next call waits for another one. The
    /// backend's own `idleTimeout` stops any program.
    pub max_idle_start: Duration,
    /// Debounce of announced changes: those within this time of each other cause one listing.
    pub refresh_debounce: Duration,
    /// Time for one listing of everything, all pages included.
    pub list_timeout: Duration,
    /// Time after which a call is cut although it keeps reporting progress.
    pub max_call: Duration,
    /// Largest message accepted from a backend, in bytes; a larger one fails its call, and on a stdio stream
    /// or a websocket the connection.
    pub max_message_bytes: usize,
    /// Budget of the bytes of all collected answers; requests of clients count in it too.
    pub byte_budget: ByteBudget,
    /// Time for an HTTP server to answer the probe for its era; then it is taken for a legacy one.
    pub http_probe_timeout: Duration,
    /// Time for a stdio server to answer that probe. Short, because old servers ignore unknown methods before
    /// `initialize`.
    pub stdio_probe_timeout: Duration,
    /// Interval of the pings on a websocket; one on which nothing arrives for three of them is ended.
    pub ping_interval: Duration,
    /// Time for calls in flight to finish when a backend is stopped.
    pub drain_timeout: Duration,
    /// Time for a child process to exit by itself, and again after SIGTERM, before it is killed.
    pub kill_grace: Duration,
    /// Upstream sessions kept at one legacy backend that keeps state, one for each client session. One more
    /// evicts the least recently used idle one; if all are in use, the call is refused.
    pub max_sessions: usize,
    /// Idle time after which an upstream session is ended, unless its client listens.
    pub session_idle: Duration,
    /// Receives the messages that belong to no request.
    pub downstream: Arc<dyn Downstream>,
    /// Hears of failed attempts to connect, and of sessions that ended.
    pub connection_observer: Arc<dyn ConnectionObserver>,
    /// Counts the sessions that see definitions of their own.
    pub session_listings: SessionListingCount,
    /// Credentials of vmcp's own requests, and of those of clients that bring none.
    pub credentials: Option<SharedCredentials>,
    /// vmcp's version as told to backends in `clientInfo`.
    pub client_version: String,
    /// The pool of HTTP connections.
    pub http: HttpClient,
}

/// Environment variable that names the configurations whose servers started a program, directly or through
/// others, separated by colons.
pub const SERVED_VARIABLE: &str = "VMCP_SERVED";

/// Returns the number of processes that may start at the same time: one more than there are cores. They are
/// counted once: each count reads three files of the control group.
fn default_starts() -> usize {
    static CORES: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, NonZeroUsize::get));
    *CORES + 1
}

impl Default for BackendSettings {
    fn default() -> Self {
        Self {
            connection_timeout: Duration::from_secs(30),
            max_connection_retries: 3,
            first_pause: Duration::from_secs(1),
            retry_failed_every: Duration::from_secs(30),
            starts: Arc::new(Semaphore::new(default_starts())),
            idle_start_after: Duration::from_secs(5),
            lazy_connect: true,
            revalidate_after: Duration::from_secs(3),
            breaker: BreakerSettings::default(),
            fail_fast: false,
            in_our_place: false,
            own_mark: None,
            served: None,
            orphan_guard: None,
            pinned_programs: None,
            refresh_interval: Duration::from_mins(5),
            unheard_refresh_interval: Duration::from_mins(1),
            idle_timeout: Duration::ZERO,
            max_idle_start: Duration::from_secs(10),
            refresh_debounce: Duration::from_millis(200),
            list_timeout: Duration::from_mins(1),
            max_call: Duration::from_mins(10),
            max_message_bytes: 64 * 1024 * 1024,
            byte_budget: ByteBudget::default(),
            http_probe_timeout: Duration::from_secs(5),
            stdio_probe_timeout: Duration::from_secs(2),
            ping_interval: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
            kill_grace: Duration::from_secs(2),
            max_sessions: 10_000,
            session_idle: Duration::from_mins(30),
            downstream: Arc::new(NoDownstream),
            connection_observer: Arc::new(NoConnectionObserver),
            session_listings: SessionListingCount::default(),
            credentials: None,
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
            http: HttpClient::default(),
        }
    }
}
