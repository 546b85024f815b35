//! [`KeptRun`]: a run of this process that another one can continue after this process has ended.
//!
//! The state is sealed with `server.sessionKeys`, written before each call that may not be repeated, and
//! guarded by a lease: a driver that has lost its lease sends nothing more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use vmcp_config::Config;
use vmcp_store::RunClaim;
use vmcp_wire::sealed::KeyRing;

use super::Runs;
use super::record::{LEASE, RunLookup, RunRecord, RunStoreError};
use super::store::RunStore;
use crate::random::{now, now_ms, random};

/// Largest state that is kept, in bytes. A run whose state grows beyond it is known, but not continued.
const MAX_STATE: usize = 1024 * 1024;
/// Time for which a sealed state opens: beyond the longest run. The store forgets the run before.
const SEALED_FOR: Duration = Duration::from_hours(25);
/// Attempts to remove a run whose insertion got no answer, one in each third of a lease: a minute.
const MAX_LATE_REMOVALS: usize = 30;
/// Purpose of the seal, before the id and the owner of the run.
const CONTEXT: &[u8] = b"run of a composite tool\0";

/// The reason why a run is not continued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] RunStoreError),
    /// The principal has no run of this id at this tool.
    #[error("no run {0} of this tool waits to be continued; call the tool without it")]
    Absent(String),
    /// Another call drives the run.
    #[error("the run {0} is under way; wait for its answer")]
    UnderWay(String),
    /// The state was sealed with a key that is gone.
    #[error(
        "the state of the run {0} cannot be opened: its key is no longer in server.sessionKeys; check which \
         steps have been carried out before you call again"
    )]
    Sealed(String),
    /// The state outgrew the limit.
    #[error(
        "the run {0} was cut off, and its state was larger than 1 MiB, so that it is not continued; check which \
         steps have been carried out before you call again"
    )]
    TooLarge(String),
}

/// A run that outlives this process; the lease ends when this is dropped.
pub struct KeptRun {
    record: RunRecord,
    /// Holder of the lease.
    pub(super) holder: [u8; 16],
    store: Arc<RunStore>,
    ring: Arc<KeyRing>,
    /// Cancelled by the client: then no process continues the run.
    cancel: CancellationToken,
    /// True once the store has the run.
    is_stored: AtomicBool,
    /// True if the run has ended, or is not kept after all.
    is_over: AtomicBool,
    is_too_large: AtomicBool,
    renewal: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl Runs {
    /// Returns the keeper of a new run that has `life`; `None` if nothing outlives this process.
    pub async fn keeper(
        &self,
        config: &Config,
        ring: Arc<KeyRing>,
        lookup: &RunLookup,
        id: &str,
        life: Duration,
        cancel: CancellationToken,
    ) -> Option<KeptRun> {
        let store = self.store(config).await;
        store.keeps().then(|| {
            let expires_at = now_ms().saturating_add(i64::try_from(life.as_millis()).unwrap_or(i64::MAX));
            let RunLookup { owner, request, .. } = *lookup;
            let record = RunRecord { id: id.to_owned(), owner, request, expires_at };
            KeptRun::new(record, self.holder(), store, ring, cancel)
        })
    }

    /// Takes over a run whose process has ended, with its state. A run of the same request that another
    /// process drives is waited for until its lease is over or renewed, seconds at most.
    pub async fn claim(
        &self,
        config: &Config,
        ring: Arc<KeyRing>,
        lookup: &RunLookup,
        cancel: CancellationToken,
    ) -> Result<Option<(KeptRun, String)>, ClaimError> {
        let store = self.store(config).await;
        let holder = self.holder();
        let mut claimed = store.claim(lookup, holder).await?;
        if let RunClaim::Held(left) = claimed {
            sleep(Duration::from_millis(u64::try_from(left).unwrap_or_default() + 1).min(LEASE)).await;
            claimed = store.claim(lookup, holder).await?;
        }
        let (id, sealed) = match (claimed, &lookup.id) {
            (RunClaim::Claimed { id, state }, _) => (id, state),
            (RunClaim::Absent | RunClaim::Held(_), None) => return Ok(None),
            (RunClaim::Absent, Some(id)) => return Err(ClaimError::Absent(id.clone())),
            (RunClaim::Held(_), Some(id)) => return Err(ClaimError::UnderWay(id.clone())),
        };
        let RunLookup { owner, request, .. } = *lookup;
        // Only a new run writes its expiry.
        let record = RunRecord { id: id.clone(), owner, request, expires_at: now_ms() };
        let run = KeptRun::new(record, holder, store, ring, cancel);
        run.is_stored.store(true, Ordering::Relaxed);
        let Some(state) = run.open(&sealed) else {
            run.end().await;
            return Err(if sealed.is_empty() { ClaimError::TooLarge(id) } else { ClaimError::Sealed(id) });
        };
        run.renew();
        Ok(Some((run, state)))
    }
}

impl KeptRun {
    fn new(
        record: RunRecord,
        holder: [u8; 16],
        store: Arc<RunStore>,
        ring: Arc<KeyRing>,
        cancel: CancellationToken,
    ) -> KeptRun {
        KeptRun {
            record,
            holder,
            store,
            ring,
            cancel,
            is_stored: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            is_too_large: AtomicBool::new(false),
            renewal: Mutex::default(),
        }
    }

    /// Returns the id of the run.
    pub fn id(&self) -> &str {
        &self.record.id
    }

    /// True while the run is kept, with its state.
    pub fn is_kept(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed) && !self.is_too_large.load(Ordering::Relaxed)
    }

    /// Keeps the state. A run that cannot be stored at its begin goes on without; later, an error ends it,
    /// because another driver could repeat what this one does next.
    pub async fn keep(&self, state: &str) -> Result<(), String> {
        let is_too_large = state.len() > MAX_STATE;
        self.is_too_large.store(is_too_large, Ordering::Relaxed);
        let sealed = if is_too_large { String::new() } else { self.seal(state) };
        if self.is_stored.load(Ordering::Relaxed) {
            return match self.store.update(&self.record.id, Some(sealed), LEASE, self.holder).await {
                Ok(true) => Ok(()),
                Ok(false) => Err("another call has continued this run".to_owned()),
                Err(error) => Err(format!(
                    "the run is cut off: {error}. Check which steps have been carried out before you call \
                     again"
                )),
            };
        }
        match self.store.insert(&self.record, sealed, self.holder).await {
            Ok(()) => {
                self.is_stored.store(true, Ordering::Relaxed);
                self.renew();
            }
            Err(error) => {
                self.is_over.store(true, Ordering::Relaxed);
                tracing::warn!(run = self.record.id, %error, "a run of a composite tool ends with this process");
                // A store that answered too late has the run: nothing would end it there.
                tokio::spawn(remove_late(Arc::clone(&self.store), self.record.clone(), self.holder));
            }
        }
        Ok(())
    }

    /// Forgets the run, which has ended.
    pub async fn end(&self) {
        self.renewal.lock().take();
        let was_over = self.is_over.swap(true, Ordering::Relaxed);
        if !was_over
            && self.is_stored.load(Ordering::Relaxed)
            && let Err(error) = self.store.remove(&self.record, self.holder).await
        {
            tracing::warn!(run = self.record.id, %error, "a run that has ended is still stored");
        }
    }

    /// Renews the lease until this is dropped or the run has ended.
    fn renew(&self) {
        let (store, holder, id) = (Arc::clone(&self.store), self.holder, self.record.id.clone());
        let renewal = tokio::spawn(async move {
            loop {
                sleep(LEASE / 3).await;
                if store.update(&id, None, LEASE, holder).await == Ok(false) {
                    return;
                }
            }
        });
        *self.renewal.lock() = Some(AbortOnDropHandle::new(renewal));
    }

    fn associated(&self) -> Vec<u8> {
        [CONTEXT, &self.record.owner, self.record.id.as_bytes()].concat()
    }

    fn seal(&self, state: &str) -> String {
        self.ring.seal(&random(), state.as_bytes(), &self.associated(), now() + SEALED_FOR.as_secs())
    }

    fn open(&self, sealed: &str) -> Option<String> {
        let opened = self.ring.open_long(sealed, &self.associated(), now()).ok()?;
        String::from_utf8(opened.content).ok()
    }
}

impl Drop for KeptRun {
    fn drop(&mut self) {
        if !self.is_stored.load(Ordering::Relaxed) || self.is_over.load(Ordering::Relaxed) {
            return;
        }
        // Outside of a runtime, the lease ends by itself.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (store, record, holder) = (Arc::clone(&self.store), self.record.clone(), self.holder);
        let is_cancelled = self.cancel.is_cancelled();
        runtime.spawn(async move {
            // A failure leaves the run to the end of its lease.
            if is_cancelled {
                let _ = store.remove(&record, holder).await;
            } else {
                let _ = store.update(&record.id, None, Duration::ZERO, holder).await;
            }
        });
    }
}

/// Removes a run whose insertion got no answer, as soon as the store answers.
async fn remove_late(store: Arc<RunStore>, record: RunRecord, holder: [u8; 16]) {
    for _ in 0..MAX_LATE_REMOVALS {
        if store.remove(&record, holder).await.is_ok() {
            return;
        }
        sleep(LEASE / 3).await;
    }
}
