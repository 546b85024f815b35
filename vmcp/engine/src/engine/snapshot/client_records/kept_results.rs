//! [`KeptResults`]: large results of clients, kept in place of being sent (`optimizer.largeResults`): in the
//! Redis that replicas share, else in files or memory of this process.

mod redis;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use vmcp_config::Config;
use vmcp_error_chain::error_chain;
use vmcp_results::Content;
use vmcp_results::store::{
    Bounds, Keep, KeepError, Moment, Origin, Owner, ResultStore, SealedName, StoredResult, Usage,
};

use self::redis::RedisResults;
use crate::access::identity::Principal;
use crate::engine::Snapshot;
use crate::random::{now, random};

pub use self::redis::SharedStoreError;

/// Folder of results, beside `state.db`.
const FOLDER: &str = "results";
/// Reads, searches and queries that run at once: each may take hundreds of megabytes for seconds.
const MAX_JOBS: usize = 2;
/// Results that are read from Redis at once, and as many that are written: each is in memory as a whole.
const MAX_TRANSFERS: usize = 2;
/// Longest wait for other results that are written to Redis; later the process keeps the result itself.
const MAX_WRITE_WAIT: Duration = Duration::from_secs(20);
/// Interval at which expired results are removed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// Bytes that sealing adds to a result, with its origin; a larger one in Redis is not read.
const MAX_SEAL_BYTES: u64 = 64 << 10;

/// Work on a result, which keeps its own value.
type ResultWork = Box<dyn FnOnce(&StoredResult) + Send>;

/// The kept results that this process finds, and the threads that work on them.
#[derive(Debug)]
pub struct KeptResults {
    store: ResultStore,
    shared: Mutex<Option<Arc<RedisResults>>>,
    /// Results that Redis did not take.
    unshared: AtomicU64,
    jobs: Arc<Semaphore>,
    /// Results on their way from Redis, or read and waiting for a job.
    reads: Semaphore,
    /// Results on their way to Redis.
    writes: Semaphore,
    /// One job at a time for each owner: a client that asks much waits for itself.
    turns: Mutex<HashMap<Owner, Weak<Semaphore>>>,
}

/// A result that was kept.
#[derive(Debug)]
pub struct KeptResult {
    /// Its reference.
    pub reference: String,
    /// Its content.
    pub stored: Arc<StoredResult>,
    /// Seconds for which the reference is good.
    pub seconds: u64,
}

/// Returns the owner of results of a principal: its identity and profile, or without an identity its address.
pub fn owner(principal: &Principal) -> Owner {
    let hash = Sha256::new().chain_update(b"vmcp results of\0").chain_update(principal.binding());
    hash.chain_update(principal.key().to_string()).finalize().into()
}

impl KeptResults {
    /// Opens the results of a folder; without one, results are in memory.
    pub(in crate::engine) fn open(dir: Option<&Path>) -> KeptResults {
        KeptResults {
            store: ResultStore::open(dir.map(|dir| dir.join(FOLDER)), now()),
            shared: Mutex::default(),
            unshared: AtomicU64::new(0),
            jobs: Arc::new(Semaphore::new(MAX_JOBS)),
            reads: Semaphore::new(MAX_TRANSFERS),
            writes: Semaphore::new(MAX_TRANSFERS),
            turns: Mutex::default(),
        }
    }

    /// Keeps the content of a result under the settings in force. A result that Redis does not take is kept
    /// by this process alone.
    pub async fn keep(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        owner: Owner,
        origin: Origin,
        content: Content,
    ) -> Result<KeptResult, KeepError> {
        let settings = &snapshot.config.optimizer.large_results;
        let (now, seconds) = (now(), settings.ttl.as_secs());
        let keep = Keep {
            owner,
            stored: Arc::new(StoredResult { origin, content, expires: now + seconds }),
            id: random(),
            nonce: random(),
            // A sealed result that no later process can open is of no use; other processes share the folder.
            at_rest: !snapshot.config.server.session_keys.is_empty(),
        };
        let bounds = Bounds { per_owner: settings.max_bytes_per_principal, total: settings.max_bytes };
        let (reference, stored) = (keep.reference().to_string(), Arc::clone(&keep.stored));
        let kept = KeptResult { reference, stored, seconds };
        if self.share(snapshot, &keep, bounds).await? {
            return Ok(kept);
        }
        let (results, ring) = (Arc::clone(self), snapshot.ring());
        let keep = move || results.store.keep(keep, bounds, Moment { ring: &ring, now });
        spawn_blocking(keep).await.map_err(|_| KeepError::Interrupted)??;
        Ok(kept)
    }

    /// Keeps a result in Redis; false if it is not kept there.
    async fn share(&self, snapshot: &Snapshot, keep: &Keep, bounds: Bounds) -> Result<bool, KeepError> {
        let Some(shared) = self.shared(&snapshot.config) else { return Ok(false) };
        // Before sealing, so that a result that waits is in memory once.
        let transfer = match timeout(MAX_WRITE_WAIT, self.writes.acquire()).await {
            Ok(transfer) => transfer.map_err(|_| KeepError::Interrupted)?,
            Err(_) => return Ok(self.not_shared(&"Redis is busy with other results")),
        };
        let (keep, ring) = (keep.clone(), snapshot.ring());
        let sealed = spawn_blocking(move || keep.seal(&ring)).await.map_err(|_| KeepError::Interrupted)?;
        let Ok(sealed) = sealed else { return Ok(false) };
        bounds.check(sealed.bytes.len() as u64)?;
        let ttl = snapshot.config.optimizer.large_results.ttl;
        let written = shared.write(&sealed, bounds, ttl).await;
        drop(transfer);
        Ok(written.map_or_else(|error| self.not_shared(&error), |()| true))
    }

    /// Counts a result that Redis did not take. Returns false.
    fn not_shared(&self, reason: &dyn std::fmt::Display) -> bool {
        self.unshared.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(error = %reason, "a large result is kept by this replica alone");
        false
    }

    /// Returns the store that replicas share. Without session keys no other process could open a result.
    fn shared(&self, config: &Config) -> Option<Arc<RedisResults>> {
        let server = config.rate_limiting.store.as_ref();
        let server = server.filter(|_| !config.server.session_keys.is_empty())?;
        let mut shared = self.shared.lock();
        if let Some(known) = shared.as_ref().filter(|known| known.server() == server) {
            return Some(Arc::clone(known));
        }
        match RedisResults::new(server.clone()) {
            Ok(made) => Some(Arc::clone(shared.insert(Arc::new(made)))),
            Err(error) => {
                let error = error_chain(&error);
                tracing::error!(error, "Redis is not used; each replica keeps its own results");
                None
            }
        }
    }

    /// Runs `work` on a result of this owner, as [`KeptResults::work`] does. `None` for an unknown or expired
    /// result, and for another's; an error if the result may be in a shared store that does not answer.
    pub async fn work_on<T: Send + 'static>(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        owner: &Owner,
        reference: &str,
        work: impl FnOnce(&StoredResult) -> T + Send + 'static,
    ) -> Result<Option<T>, SharedStoreError> {
        let done = Arc::new(Mutex::new(None));
        let place = Arc::clone(&done);
        // Boxed, and its value aside, so that the search for a result is compiled once for all kinds of work.
        let work: ResultWork = Box::new(move |stored: &StoredResult| {
            let value = work(stored);
            *place.lock() = Some(value);
        });
        self.run_on(snapshot, owner, reference, work).await?;
        Ok(done.lock().take())
    }

    /// Finds a result of this owner, here or in the shared store, and runs `work` on it if it exists.
    async fn run_on(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        owner: &Owner,
        reference: &str,
        work: ResultWork,
    ) -> Result<(), SharedStoreError> {
        let Some(permits) = self.permits(owner).await else { return Ok(()) };
        let (results, owner, named) = (Arc::clone(self), *owner, reference.to_owned());
        let ring = snapshot.ring();
        let local = move || match results.store.get(&owner, &named, Moment { ring: &ring, now: now() }) {
            Some(stored) => {
                let _permits = permits;
                work(&stored);
                Ok(())
            }
            None => Err((permits, work)),
        };
        let Ok(Err(([turn, job], work))) = spawn_blocking(local).await else { return Ok(()) };
        // Other owners work while this one waits for Redis.
        drop(job);
        let shared = self.shared(&snapshot.config).zip(SealedName::of(&owner, reference));
        let Some((shared, name)) = shared else { return Ok(()) };
        let Ok(transfer) = self.reads.acquire().await else { return Ok(()) };
        let max_bytes = snapshot.config.optimizer.large_results.max_bytes_per_principal;
        let Some(bytes) = shared.read(&name, max_bytes.saturating_add(MAX_SEAL_BYTES)).await? else {
            return Ok(());
        };
        // The transfer is over once a job takes the bytes: no more than MAX_TRANSFERS results wait for one.
        let Ok(job) = Arc::clone(&self.jobs).acquire_owned().await else { return Ok(()) };
        drop(transfer);
        let ring = snapshot.ring();
        let open_and_work = move || {
            let _permits = [turn, job];
            let stored = name.open(&bytes, &ring, now());
            drop(bytes);
            if let Some(stored) = stored {
                work(&stored);
            }
        };
        // Work that panicked leaves no value.
        let _ = spawn_blocking(open_and_work).await;
        Ok(())
    }

    /// Runs work that takes much memory or time, in the owner's turn, on a thread that may be kept busy.
    /// Returns `None` if the work panicked or the process is going down.
    pub async fn work<T: Send + 'static>(
        &self,
        owner: &Owner,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let permits = self.permits(owner).await?;
        // The permits end with the work, not with the caller: abandoned jobs must not pile up in memory.
        let work: Box<dyn FnOnce() -> T + Send> = Box::new(move || {
            let _permits = permits;
            work()
        });
        spawn_blocking(work).await.ok()
    }

    /// Waits for the owner's turn and a job; `None` while the process is going down.
    async fn permits(&self, owner: &Owner) -> Option<[OwnedSemaphorePermit; 2]> {
        let turn = self.turn(owner).acquire_owned().await.ok()?;
        let job = Arc::clone(&self.jobs).acquire_owned().await.ok()?;
        Some([turn, job])
    }

    fn turn(&self, owner: &Owner) -> Arc<Semaphore> {
        let mut turns = self.turns.lock();
        if let Some(turn) = turns.get(owner).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(Semaphore::new(1));
        turns.insert(*owner, Arc::downgrade(&turn));
        turn
    }

    /// Returns the results and bytes that this process keeps itself, and the number that gave way to its
    /// results so far, also in Redis.
    pub fn usage(&self) -> Usage {
        let usage = self.store.usage();
        let in_redis = self.shared.lock().as_ref().map_or(0, |shared| shared.evicted());
        Usage { evicted: usage.evicted + in_redis, ..usage }
    }

    /// Returns the number of results that Redis did not take so far.
    pub fn unshared(&self) -> u64 {
        self.unshared.load(Ordering::Relaxed)
    }
}

/// Removes expired results until `stop`.
pub(in crate::engine) async fn sweep(results: Arc<KeptResults>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = sleep(SWEEP_INTERVAL) => {}
            () = stop.cancelled() => return,
        }
        if results.usage().results == 0 {
            continue;
        }
        let results = Arc::clone(&results);
        let _ = spawn_blocking(move || results.store.sweep(now())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::identity::Identity;

    #[test]
    fn owners_are_identities_profiles_and_addresses() {
        let at = |address: &str| owner(&Principal::at(address));
        assert_eq!(at("10.0.0.1"), at("10.0.0.1"));
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
        let anonymous = Principal::from(Identity::Anonymous);
        let profiled = Principal { profile: Some("ops".into()), ..anonymous.clone() };
        assert_ne!(owner(&anonymous), owner(&profiled));
    }

    #[tokio::test]
    async fn work_of_a_caller_that_left_keeps_its_permits() {
        let results = KeptResults::open(None);
        let owner = owner(&Principal::at("10.0.0.1"));
        let (began, has_begun) = tokio::sync::oneshot::channel();
        let (end, may_end) = std::sync::mpsc::channel::<()>();
        let work = results.work(&owner, move || {
            let _ = began.send(());
            may_end.recv()
        });
        tokio::select! {
            _ = work => panic!("the work waits"),
            sent = has_begun => sent.unwrap(),
        }
        let turn = results.turn(&owner);
        assert_eq!((results.jobs.available_permits(), turn.available_permits()), (MAX_JOBS - 1, 0));
        end.send(()).unwrap();
        assert_eq!(results.work(&owner, || 7).await, Some(7));
    }
}
