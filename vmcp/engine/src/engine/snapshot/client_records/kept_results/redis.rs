//! [`RedisResults`]: results in the Redis of `sessionStorage`, where every replica finds them.
//!
//! A result is sealed before it comes here. Its bytes are a hash of chunks that expires by itself. Sizes and
//! order of use are indexes beside it, changed by scripts alone, so that the bounds hold over all replicas.

mod scripts;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::ConnectionManager;
use redis::{FromRedisValue, RedisError, Script, ScriptInvocation};
use tokio::time::timeout;
use vmcp_access::rate_limit::redis_connection::{ANSWER_TIMEOUT, Outage, RETRY_INTERVAL, connect};
use vmcp_config::RedisStore;
use vmcp_error_chain::error_chain;
use vmcp_results::store::{Bounds, MAX_RESULTS_PER_OWNER, SealedName, SealedResult};

/// Bytes of one value in Redis: 1 MiB, so that no command blocks Redis for long.
const CHUNK_BYTES: usize = 1 << 20;
/// Time of a whole result, written or read; each command has [`ANSWER_TIMEOUT`].
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(20);
/// Results that one script removes; the next call goes on.
const BATCH: usize = 1_000;
/// Calls of the script that makes room; a store that is still over its bounds refuses the result.
const MAX_BATCHES: usize = 100;

/// A shared store that did not keep or give a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SharedStoreError {
    /// It does not answer.
    #[error("Redis does not answer: {0}")]
    Away(String),
    /// It answers with an error, such as one of its memory limit.
    #[error("Redis refuses a result: {0}")]
    Refused(String),
    /// Other results took the place meanwhile.
    #[error("the result gave way to other results while it was written")]
    GaveWay,
}

/// Results in Redis.
pub(super) struct RedisResults {
    server: RedisStore,
    connection: ConnectionManager,
    reserve: Script,
    write: Script,
    touch: Script,
    remove: Script,
    outage: Outage,
    evicted: AtomicU64,
}

impl std::fmt::Debug for RedisResults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisResults").field("server", &self.server).finish_non_exhaustive()
    }
}

impl RedisResults {
    /// Results at `server`; connects with the first call.
    pub(super) fn new(server: RedisStore) -> Result<RedisResults, RedisError> {
        Ok(RedisResults {
            connection: connect(&server)?,
            reserve: scripts::reserve(),
            write: scripts::write(),
            touch: scripts::touch(),
            remove: scripts::remove(),
            outage: Outage::default(),
            evicted: AtomicU64::new(0),
            server,
        })
    }

    /// Returns the server.
    pub(super) fn server(&self) -> &RedisStore {
        &self.server
    }

    /// Returns the results that gave way to results of this process before their time, so far.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Keeps a result for `life`, and lets go of the least recently used ones beyond the bounds. Parts of a
    /// result that is not written to its end are removed.
    pub(super) async fn write(
        self: &Arc<Self>,
        sealed: &SealedResult,
        bounds: Bounds,
        life: Duration,
    ) -> Result<(), SharedStoreError> {
        self.within_time(async {
            let mut reservation = Reservation { results: self, name: sealed.name, is_over: false };
            let written = self.write_chunks(sealed, bounds, life).await;
            reservation.is_over = matches!(written, Ok(()) | Err(SharedStoreError::GaveWay));
            written
        })
        .await
    }

    async fn write_chunks(
        &self,
        sealed: &SealedResult,
        bounds: Bounds,
        life: Duration,
    ) -> Result<(), SharedStoreError> {
        let id = id(&sealed.name);
        let life = u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
        self.make_room(&sealed.name, sealed.bytes.len(), bounds, life).await?;
        let chunks = sealed.bytes.chunks(CHUNK_BYTES);
        let count = chunks.len();
        for (number, chunk) in chunks.enumerate() {
            let mut call = self.write.key(self.data("sizes"));
            call.key(self.data(&id)).arg(&id).arg(number).arg(chunk).arg(life).arg(count);
            if self.ask::<u64>(call).await? == 0 {
                return Err(SharedStoreError::GaveWay);
            }
        }
        Ok(())
    }

    /// Reserves the bytes of a result, and removes others until all are within the bounds.
    async fn make_room(
        &self,
        name: &SealedName,
        bytes: usize,
        bounds: Bounds,
        life: u64,
    ) -> Result<(), SharedStoreError> {
        let id = id(name);
        for _ in 0..MAX_BATCHES {
            let mut call = self.indexes(&self.reserve);
            call.key(self.of_owner(name)).arg(self.data("")).arg(&id).arg(bytes).arg(life);
            call.arg(bounds.per_owner).arg(bounds.total).arg(MAX_RESULTS_PER_OWNER).arg(BATCH);
            let (evicted, fits) = self.ask::<(u64, u64)>(call).await?;
            self.evicted.fetch_add(evicted, Ordering::Relaxed);
            if fits == 1 {
                return Ok(());
            }
        }
        Err(SharedStoreError::Refused("its results are beyond the bounds by too many".to_owned()))
    }

    /// Returns the sealed bytes of a result, which counts as used now; `None` for an unknown one, and for one
    /// of more than `max_bytes`.
    pub(super) async fn read(
        &self,
        name: &SealedName,
        max_bytes: u64,
    ) -> Result<Option<Vec<u8>>, SharedStoreError> {
        self.within_time(self.read_chunks(name, max_bytes)).await
    }

    async fn read_chunks(
        &self,
        name: &SealedName,
        max_bytes: u64,
    ) -> Result<Option<Vec<u8>>, SharedStoreError> {
        let id = id(name);
        let data = self.data(&id);
        let mut call = self.touch.key(self.data("used"));
        call.key(self.of_owner(name)).key(&data).arg(&id);
        let Some(count) = self.ask::<Option<u64>>(call).await? else { return Ok(None) };
        let mut bytes = Vec::new();
        for number in 0..count {
            let mut command = redis::cmd("HGET");
            command.arg(&data).arg(number);
            let mut connection = self.connection.clone();
            let chunk = command.query_async::<Option<Vec<u8>>>(&mut connection);
            let chunk = answered(timeout(ANSWER_TIMEOUT, chunk).await)?;
            // A result that gave way meanwhile is unknown.
            let Some(chunk) = chunk else { return Ok(None) };
            bytes.extend_from_slice(&chunk);
            if bytes.len() as u64 > max_bytes {
                return Ok(None);
            }
        }
        Ok(Some(bytes))
    }

    async fn remove(&self, name: &SealedName) -> Result<(), SharedStoreError> {
        let mut call = self.indexes(&self.remove);
        call.arg(self.data("")).arg(id(name));
        self.ask::<u64>(call).await.map(drop)
    }

    /// Runs a transfer unless Redis is away, and for no longer than [`TRANSFER_TIMEOUT`]. The transfer as a
    /// whole says if Redis is away: a slow Redis answers each command and is too late with the result.
    async fn within_time<T>(
        &self,
        transfer: impl Future<Output = Result<T, SharedStoreError>>,
    ) -> Result<T, SharedStoreError> {
        if !self.outage.may_ask() {
            return Err(SharedStoreError::Away(format!("it is asked again every {RETRY_INTERVAL:?}")));
        }
        let late = || Err(SharedStoreError::Away(format!("a result took more than {TRANSFER_TIMEOUT:?}")));
        let transferred = timeout(TRANSFER_TIMEOUT, transfer).await.unwrap_or_else(|_| late());
        let is_away = matches!(transferred, Err(SharedStoreError::Away(_)));
        if is_away {
            self.outage.begin();
        } else {
            self.outage.end();
        }
        transferred
    }

    async fn ask<T: FromRedisValue>(&self, call: ScriptInvocation<'_>) -> Result<T, SharedStoreError> {
        let mut connection = self.connection.clone();
        answered(timeout(ANSWER_TIMEOUT, call.invoke_async::<T>(&mut connection)).await)
    }

    /// Begins a call of a script with the keys of the indexes of all results.
    fn indexes<'a>(&self, script: &'a Script) -> ScriptInvocation<'a> {
        let mut call = script.key(self.data("sizes"));
        call.key(self.data("expiry")).key(self.data("used")).key(self.data("sums"));
        call
    }

    fn of_owner(&self, name: &SealedName) -> String {
        self.data(&format!("of:{}", hex::encode(name.owner)))
    }

    /// Returns the key of the chunks of a result.
    fn data(&self, id: &str) -> String {
        format!("{}results:{id}", self.server.key_prefix)
    }
}

/// A result that is being written. Its drop removes the parts unless the write is over, so that a failure, a
/// timeout and a caller that left leave no bytes that count until their expiry. If Redis does not answer
/// the removal within [`ANSWER_TIMEOUT`], the parts stay until they expire.
struct Reservation<'a> {
    results: &'a Arc<RedisResults>,
    name: SealedName,
    /// True if the result is whole, or gave way.
    is_over: bool,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Without a runtime the process is going down.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (results, name) = (Arc::clone(self.results), self.name);
        runtime.spawn(async move {
            if let Err(error) = results.remove(&name).await {
                tracing::debug!(%error, "parts of a large result stay in Redis until they expire");
            }
        });
    }
}

/// Returns the value of an answer.
fn answered<T>(
    answer: Result<Result<T, RedisError>, tokio::time::error::Elapsed>,
) -> Result<T, SharedStoreError> {
    let is_away =
        |error: &RedisError| error.is_io_error() || error.is_timeout() || error.is_connection_dropped();
    match answer {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) if is_away(&error) => Err(SharedStoreError::Away(error_chain(&error))),
        Ok(Err(error)) => Err(SharedStoreError::Refused(error_chain(&error))),
        Err(_) => Err(SharedStoreError::Away(format!("no answer within {ANSWER_TIMEOUT:?}"))),
    }
}

/// Returns the id of a result: the digests of its owner and of itself.
fn id(name: &SealedName) -> String {
    format!("{}:{}", hex::encode(name.owner), hex::encode(name.key))
}

#[cfg(test)]
mod tests;
