//! [`RunStore`]: keeps runs and used answers where other processes find them: in Redis, if `sessionStorage`
//! names one, else in `state.db`, which the processes of one folder share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use vmcp_config::RedisStore;
use vmcp_error_chain::error_chain;
use vmcp_store::{KeptRun, RunClaim, RunLease, RunName, StateStore, StoreError};

use super::record::{ANSWER_KNOWN, LEASE, RunLookup, RunRecord, RunStoreError};
use super::redis::RedisRuns;
use crate::random::now_ms;

/// The store of runs.
pub(crate) enum RunStore {
    /// None: a run ends with its process.
    Nothing,
    /// The database in the storage folder.
    StateDb(Arc<StateStore>),
    /// The server that the replicas share.
    Redis(Box<RedisRuns>),
}

impl RunStore {
    /// Opens the store; a store that cannot be opened leaves none.
    pub(super) async fn open(redis: Option<&RedisStore>, dir: Option<PathBuf>) -> RunStore {
        if let Some(server) = redis {
            return match RedisRuns::new(server.clone()) {
                Ok(runs) => RunStore::Redis(Box::new(runs)),
                Err(error) => {
                    tracing::error!(
                        error = error_chain(&error),
                        "Redis is not used; runs end with their process"
                    );
                    RunStore::Nothing
                }
            };
        }
        let Some(dir) = dir else { return RunStore::Nothing };
        let opened = tokio::task::spawn_blocking(move || StateStore::open(&dir)).await;
        match opened {
            Ok(Ok(store)) => RunStore::StateDb(Arc::new(store)),
            Ok(Err(error)) => {
                tracing::warn!(%error, "runs of composite tools end with their process");
                RunStore::Nothing
            }
            Err(_) => RunStore::Nothing,
        }
    }

    /// True if this is the store for a configuration.
    pub(super) fn is_of(&self, redis: Option<&RedisStore>) -> bool {
        match self {
            RunStore::Redis(runs) => Some(runs.server()) == redis,
            RunStore::Nothing | RunStore::StateDb(_) => redis.is_none(),
        }
    }

    /// True if a run outlives its process.
    pub(super) fn keeps(&self) -> bool {
        !matches!(self, RunStore::Nothing)
    }

    /// Keeps a new run.
    pub(super) async fn insert(
        &self,
        run: &RunRecord,
        state: String,
        holder: [u8; 16],
    ) -> Result<(), RunStoreError> {
        match self {
            RunStore::Nothing => Ok(()),
            RunStore::StateDb(store) => {
                let run = run.clone();
                blocking(store, move |store| {
                    let RunRecord { id, owner, request, expires_at } = &run;
                    let run = KeptRun { id, owner, request, expires_at: *expires_at, state: &state };
                    store.insert_run(&run, lease(holder, LEASE))
                })
                .await
            }
            RunStore::Redis(runs) => runs.insert(run, &state, holder).await,
        }
    }

    /// Lets the lease of a run end after `lasts`, and writes its state if there is one; false if the holder
    /// has lost the lease.
    pub(super) async fn update(
        &self,
        id: &str,
        state: Option<String>,
        lasts: Duration,
        holder: [u8; 16],
    ) -> Result<bool, RunStoreError> {
        match self {
            RunStore::Nothing => Ok(true),
            RunStore::StateDb(store) => {
                let id = id.to_owned();
                let update =
                    move |store: &StateStore| store.update_run(&id, state.as_deref(), lease(holder, lasts));
                blocking(store, update).await
            }
            RunStore::Redis(runs) => runs.update(id, state.as_deref(), lasts, holder).await,
        }
    }

    /// Forgets a run that has ended.
    pub(super) async fn remove(&self, run: &RunRecord, holder: [u8; 16]) -> Result<(), RunStoreError> {
        match self {
            RunStore::Nothing => Ok(()),
            RunStore::StateDb(store) => {
                let id = run.id.clone();
                blocking(store, move |store| store.remove_run(&id, &holder)).await
            }
            RunStore::Redis(runs) => runs.remove(run, holder).await,
        }
    }

    /// Claims a run whose lease is over: by its id, or by its request.
    pub(super) async fn claim(
        &self,
        lookup: &RunLookup,
        holder: [u8; 16],
    ) -> Result<RunClaim, RunStoreError> {
        match self {
            RunStore::Nothing => Ok(RunClaim::Absent),
            RunStore::StateDb(store) => {
                let RunLookup { owner, request, id } = lookup.clone();
                blocking(store, move |store| {
                    let name = id.as_deref().map_or(RunName::Request(&request), RunName::Id);
                    store.claim_run(&owner, name, lease(holder, LEASE))
                })
                .await
            }
            RunStore::Redis(runs) => runs.claim(lookup, holder).await,
        }
    }

    /// Notes that an answer is used; false if it was before. Without a store, every answer is new.
    pub(super) async fn use_answer(&self, digest: [u8; 32]) -> Result<bool, RunStoreError> {
        match self {
            RunStore::Nothing => Ok(true),
            RunStore::StateDb(store) => {
                blocking(store, move |store| {
                    let now = now_ms();
                    store.use_answer(&digest, now, now + ANSWER_KNOWN.as_millis() as i64)
                })
                .await
            }
            RunStore::Redis(runs) => runs.use_answer(digest).await,
        }
    }
}

fn lease(holder: [u8; 16], lasts: Duration) -> RunLease {
    let now = now_ms();
    RunLease { holder, now, until: now + lasts.as_millis() as i64 }
}

async fn blocking<T: Send + 'static>(
    store: &Arc<StateStore>,
    work: impl FnOnce(&StateStore) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, RunStoreError> {
    let store = Arc::clone(store);
    // Boxed, so that the task is compiled once for a type of value.
    let work: Box<dyn FnOnce() -> Result<T, StoreError> + Send> = Box::new(move || work(&store));
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(RunStoreError::new("the process is going down")),
    }
}
