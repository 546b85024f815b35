//! [`KeySource`]: the keys of an issuer, fetched in the background.
//!
//! One task for each issuer fetches the keys: at the start, every [`Timing::refresh`], and when a token names
//! an unknown key (rotation). So fetches are single flight, and at most one happens in
//! [`Timing::least_interval`]: made-up key ids cause no load on the provider. While the provider fails, the
//! last good keys stay in use for `keyMaxAge`, and the task tries again with exponential backoff and jitter.
//! An empty key set is in force like any other: the provider has withdrawn all keys.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::io::AsyncReadExt as _;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use vmcp_config::OidcIssuer;

use super::guarded_http::{FetchError, GuardedClient};
use super::keys::{KeySet, NoKeySet};
use super::metadata::{self, MetadataError};

/// Most bytes of a file of keys; providers have some kilobytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The times of a source; tests have shorter ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// Interval of fetches while all is well.
    pub(crate) refresh: Duration,
    /// Least time between two fetches.
    pub(crate) least_interval: Duration,
    /// First and greatest wait after a failure.
    pub(crate) backoff: [Duration; 2],
    /// Time that a request waits for a fetch.
    pub(crate) patience: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            refresh: Duration::from_mins(10),
            least_interval: Duration::from_secs(5),
            backoff: [Duration::from_secs(1), Duration::from_mins(1)],
            patience: Duration::from_secs(5),
        }
    }
}

/// Keys that could not be fetched.
#[derive(Debug, thiserror::Error)]
enum KeysError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    #[error(transparent)]
    Document(#[from] NoKeySet),
    #[error("the key set {}: {reason} (jwksPath)", path.display())]
    File { path: PathBuf, reason: std::io::Error },
}

/// The keys of an issuer as of one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyState {
    pub(crate) keys: Arc<KeySet>,
    /// Number of the key set; grows whenever the document changes.
    pub(crate) version: u64,
    /// Fetches that have ended.
    pub(crate) fetches: u64,
    /// The end of the last one.
    pub(crate) fetched: Option<Instant>,
    /// The end of the last fetch that brought a key set.
    brought: Option<Instant>,
    /// The reason why the last one failed, and since when fetches fail.
    pub(crate) failure: Option<(Arc<str>, SystemTime)>,
    /// The document of `keys`.
    document: Arc<[u8]>,
}

impl KeyState {
    /// Keys that do not change.
    pub(crate) fn fixed(keys: KeySet) -> Self {
        Self { keys: Arc::new(keys), ..Self::default() }
    }
}

/// The keys of one issuer. Dropping it ends the task that fetches them.
#[derive(Debug)]
pub(crate) struct KeySource {
    state: watch::Receiver<KeyState>,
    wanted: Arc<Notify>,
    timing: Timing,
    _task: AbortOnDropHandle<()>,
}

impl KeySource {
    /// Begins to fetch. Needs a tokio runtime, which should be none that serves clients.
    pub(crate) fn start(issuer: Arc<OidcIssuer>, timing: Timing) -> KeySource {
        let (publish, state) = watch::channel(KeyState::default());
        let wanted = Arc::new(Notify::new());
        let fetcher = Fetcher { issuer, timing, publish, wanted: Arc::clone(&wanted) };
        let task = AbortOnDropHandle::new(tokio::spawn(fetcher.run()));
        KeySource { state, wanted, timing, _task: task }
    }

    /// Returns the present state.
    pub(crate) fn state(&self) -> KeyState {
        self.state.borrow().clone()
    }

    /// Returns the version of the present keys.
    pub(crate) fn version(&self) -> u64 {
        self.state.borrow().version
    }

    /// Returns the state after a fetch that ended after `seen`: waits for one, unless the last one is too
    /// fresh to be repeated.
    pub(crate) async fn newer_than(&self, seen: &KeyState) -> KeyState {
        let fresh = seen.fetched.is_some_and(|at| at.elapsed() < self.timing.least_interval);
        if fresh {
            return self.state();
        }
        self.wanted.notify_one();
        let mut state = self.state.clone();
        let newer = state.wait_for(|state| state.fetches > seen.fetches);
        // Out of patience, or the task has ended with the process: the keys that are there.
        let _ = timeout(self.timing.patience, newer).await;
        self.state()
    }
}

/// The task that fetches.
struct Fetcher {
    issuer: Arc<OidcIssuer>,
    timing: Timing,
    publish: watch::Sender<KeyState>,
    wanted: Arc<Notify>,
}

impl Fetcher {
    async fn run(self) {
        let mut failures = 0;
        loop {
            let outcome = fetch(&self.issuer).await;
            failures = if outcome.is_ok() { 0 } else { failures + 1 };
            self.report(outcome);
            let pause = match failures {
                0 => self.timing.refresh,
                failures => backoff(self.timing.backoff, failures),
            };
            // Half to whole: replicas that started together do not ask together.
            let pause = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
            // Keys are looked at when they become too old.
            let pause = pause.min(self.issuer.key_max_age);
            let ended = Instant::now();
            tokio::select! {
                () = sleep(pause) => {}
                () = self.wanted_since(ended) => {}
            }
        }
    }

    /// Waits until keys are wanted that the fetch before, which ended at `ended`, did not bring.
    async fn wanted_since(&self, ended: Instant) {
        loop {
            self.wanted.notified().await;
            if ended.elapsed() >= self.timing.least_interval {
                return;
            }
        }
    }

    /// Publishes the outcome of a fetch, and logs changes.
    fn report(&self, outcome: Result<(KeySet, Vec<u8>), KeysError>) {
        let issuer = &self.issuer.issuer;
        self.publish.send_modify(|state| {
            state.fetches += 1;
            state.fetched = Some(Instant::now());
            match outcome {
                Ok((keys, document)) => {
                    if state.failure.take().is_some() {
                        tracing::info!(%issuer, "the identity provider answers again");
                    }
                    state.brought = Some(Instant::now());
                    if *state.document != *document {
                        state.version += 1;
                        state.document = document.into();
                        if keys.len() == 0 {
                            tracing::warn!(%issuer, "the identity provider has withdrawn all keys; its tokens are refused");
                        } else {
                            tracing::info!(%issuer, keys = keys.len(), "keys of the identity provider");
                        }
                        state.keys = Arc::new(keys);
                    }
                }
                Err(error) => {
                    let reason = error.to_string();
                    let since = state.failure.take().map(|(_, since)| since);
                    if since.is_none() {
                        let keys = state.keys.len();
                        tracing::warn!(%issuer, error = reason, keys, "keys of the identity provider cannot be fetched; those from before stay in use");
                    }
                    let since = since.unwrap_or_else(SystemTime::now);
                    let is_old = state.brought.is_some_and(|at| at.elapsed() >= self.issuer.key_max_age);
                    if is_old && state.keys.len() > 0 {
                        tracing::error!(%issuer, max_age = ?self.issuer.key_max_age, "keys of the identity provider are too old; its tokens are refused until it answers (keyMaxAge)");
                        state.version += 1;
                        state.document = Arc::default();
                        state.keys = Arc::default();
                    }
                    state.failure = Some((reason.into(), since));
                }
            }
        });
    }
}

/// Exponential backoff, from the first wait to the greatest.
fn backoff([first, greatest]: [Duration; 2], failures: u32) -> Duration {
    first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(greatest)
}

/// Fetches the keys once, with a new client, which reads a replaced file of certificates; or reads the file
/// that holds them.
async fn fetch(issuer: &OidcIssuer) -> Result<(KeySet, Vec<u8>), KeysError> {
    if let Some(path) = &issuer.jwks_path {
        let read = read_file(path).await;
        let document = read.map_err(|reason| KeysError::File { path: path.clone(), reason })?;
        let keys = KeySet::parse(&document)?;
        return Ok((keys, document));
    }
    let client = GuardedClient::new(issuer)?;
    let url = match &issuer.jwks_url {
        Some(url) => url.clone(),
        None => metadata::jwks_url(&client, &issuer.issuer_url, &issuer.issuer).await?,
    };
    let document = client.get(&url).await?;
    let keys = KeySet::parse(&document)?;
    Ok((keys, document))
}

/// Reads a regular file of at most [`MAX_FILE_BYTES`]. A pipe or a device could block for ever.
async fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    if !tokio::fs::metadata(path).await?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut document = Vec::new();
    let file = tokio::fs::File::open(path).await?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut document).await?;
    if document.len() as u64 > MAX_FILE_BYTES {
        return Err(std::io::Error::other(format!("it is larger than {} MiB", MAX_FILE_BYTES >> 20)));
    }
    Ok(document)
}
