//! [`Runs`]: runs of composite tools. [`report`] is what people see of the runs of this process; [`kept`] is
//! what another process needs to continue one, by its [`record`]; [`store`] is where both that and used
//! answers are shared.

pub mod kept;
pub mod record;
mod redis;
pub mod report;
pub mod store;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use vmcp_config::Config;
use vmcp_store::HOLDER_PROCESS_BYTES;

use self::record::RunStoreError;
use self::report::RunBook;
use self::store::RunStore;
use crate::random::random;

/// Used answers that a process remembers itself: each state is sealed for ten minutes, so this is 100 answers
/// a second.
const MAX_ANSWERS: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

/// The runs of composite tools.
pub struct Runs {
    /// Storage folder; `None`: nothing outlives the process.
    dir: Option<PathBuf>,
    /// Random id of this process, the beginning of the holders of its leases.
    process: [u8; HOLDER_PROCESS_BYTES],
    store: Mutex<Option<Arc<RunStore>>>,
    used: Mutex<LruCache<[u8; 32], ()>>,
    book: RunBook,
}

impl Runs {
    /// Makes an empty book; `dir` is the storage folder.
    pub fn new(dir: Option<&Path>) -> Runs {
        Runs {
            dir: dir.map(Path::to_owned),
            process: random(),
            store: Mutex::default(),
            used: Mutex::new(LruCache::sparse(MAX_ANSWERS)),
            book: RunBook::default(),
        }
    }

    /// Returns the latest runs of this process.
    pub fn book(&self) -> &RunBook {
        &self.book
    }

    /// Notes that the answer to a sealed state is used; false if it was before, at this process or at another
    /// one with the same store. While the store does not answer, no answer is taken.
    pub async fn use_answer(&self, config: &Config, state: &str) -> Result<bool, RunStoreError> {
        let digest: [u8; 32] = Sha256::digest(state).into();
        if self.used.lock().put(digest, ()).is_some() {
            return Ok(false);
        }
        let used = self.store(config).await.use_answer(digest).await;
        if used.is_err() {
            self.used.lock().pop(&digest);
        }
        used
    }

    /// Returns the holder of a new lease.
    fn holder(&self) -> [u8; 16] {
        let mut holder = random();
        let (process, _) = holder.split_at_mut(HOLDER_PROCESS_BYTES);
        process.copy_from_slice(&self.process);
        holder
    }

    /// Returns the store of a configuration: Redis, if the replicas share one, else `state.db`.
    async fn store(&self, config: &Config) -> Arc<RunStore> {
        let wanted = config.rate_limiting.store.as_ref();
        let current = self.store.lock().clone();
        if let Some(store) = current.filter(|store| store.is_of(wanted)) {
            return store;
        }
        let store = Arc::new(RunStore::open(wanted, self.dir.clone()).await);
        *self.store.lock() = Some(Arc::clone(&store));
        store
    }
}

#[cfg(test)]
mod tests;
