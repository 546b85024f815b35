//! [`KeptResults`]: large results of clients, kept in place of being sent (`optimizer.largeResults`).

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use vmcp_results::Content;
use vmcp_results::store::{Bounds, Keep, KeepError, Moment, Origin, Owner, ResultStore, StoredResult, Usage};

use crate::access::identity::Principal;
use crate::engine::Snapshot;
use crate::random::{now, random};

/// Folder of results, beside `state.db`.
const FOLDER: &str = "results";
/// Reads, searches and queries that run at once: each may take hundreds of megabytes for seconds.
const MAX_JOBS: usize = 2;
/// Interval at which expired results are removed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// The kept results of this process, and the threads that work on them.
#[derive(Debug)]
pub struct KeptResults {
    store: ResultStore,
    jobs: Arc<Semaphore>,
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
            jobs: Arc::new(Semaphore::new(MAX_JOBS)),
            turns: Mutex::default(),
        }
    }

    /// Keeps the content of a result under the settings in force; blocks on the disk.
    pub fn keep(
        &self,
        snapshot: &Snapshot,
        owner: Owner,
        origin: Origin,
        content: Content,
    ) -> Result<KeptResult, KeepError> {
        let settings = &snapshot.config.optimizer.large_results;
        let (now, seconds) = (now(), settings.ttl.as_secs());
        let keep = Keep {
            owner,
            origin,
            content,
            expires: now + seconds,
            id: random(),
            nonce: random(),
            // A file that no later process can open is of no use, and other processes share the folder.
            at_rest: !snapshot.config.server.session_keys.is_empty(),
        };
        let bounds = Bounds { per_owner: settings.max_bytes_per_principal, total: settings.max_bytes };
        let ring = snapshot.ring();
        let (reference, stored) = self.store.keep(keep, bounds, Moment { ring: &ring, now })?;
        Ok(KeptResult { reference: reference.to_string(), stored, seconds })
    }

    /// Returns a result of this owner; blocks on the disk.
    pub fn get(&self, snapshot: &Snapshot, owner: &Owner, reference: &str) -> Option<Arc<StoredResult>> {
        let ring = snapshot.ring();
        self.store.get(owner, reference, Moment { ring: &ring, now: now() })
    }

    /// Runs work that takes much memory or time, in the owner's turn, on a thread that may be kept busy.
    /// Returns `None` if the work panicked or the process is going down.
    pub async fn work<T: Send + 'static>(
        &self,
        owner: &Owner,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let turn = self.turn(owner).acquire_owned().await.ok()?;
        let job = Arc::clone(&self.jobs).acquire_owned().await.ok()?;
        // The permits end with the work, not with the caller: abandoned jobs must not pile up in memory.
        let work = move || {
            let _permits = (turn, job);
            work()
        };
        tokio::task::spawn_blocking(work).await.ok()
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

    /// Returns the results and bytes that are kept.
    pub fn usage(&self) -> Usage {
        self.store.usage()
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
        let _ = tokio::task::spawn_blocking(move || results.store.sweep(now())).await;
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
