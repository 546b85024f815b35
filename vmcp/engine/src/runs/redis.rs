//! [`RedisRuns`]: runs and used answers in Redis. Each change is one script, by the clock of Redis, so that
//! clocks of replicas do not matter.

use std::time::Duration;

use redis::aio::ConnectionManager;
use redis::{FromRedisValue, RedisError, Script, ScriptInvocation};
use tokio::time::timeout;
use vmcp_access::rate_limit::redis_connection::{ANSWER_TIMEOUT, CLOCK, connect};
use vmcp_config::RedisStore;
use vmcp_error_chain::error_chain;
use vmcp_store::{HOLDER_PROCESS_BYTES, MAX_RUNS_OF_OWNER, RunClaim};

use super::record::{ANSWER_KNOWN, LEASE, RunLookup, RunRecord, RunStoreError};
use crate::random::now_ms;

/// Keeps a new run. KEYS: the run, the runs of its request, the runs of its owner. ARGV: holder, lease,
/// life, owner, state, id, most runs of an owner, beginning of the keys of runs. Of an owner's abandoned
/// runs, the first to expire are forgotten beyond the limit.
const INSERT: &str = r"
local life = tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
local beyond = redis.call('ZCARD', KEYS[3]) - tonumber(ARGV[7]) + 1
if beyond > 0 then
  for _, id in ipairs(redis.call('ZRANGE', KEYS[3], 0, beyond - 1)) do
    local lease = redis.call('HGET', ARGV[8] .. id, 'until')
    if not lease or tonumber(lease) <= now then
      redis.call('DEL', ARGV[8] .. id)
      redis.call('ZREM', KEYS[3], id)
    end
  end
end
redis.call('HSET', KEYS[1], 'process', ARGV[1], 'until', string.format('%d', now + ARGV[2]),
  'owner', ARGV[4], 'state', ARGV[5])
redis.call('PEXPIRE', KEYS[1], life)
redis.call('SADD', KEYS[2], ARGV[6])
redis.call('ZADD', KEYS[3], now + life, ARGV[6])
for i = 2, 3 do
  if redis.call('PTTL', KEYS[i]) < life then redis.call('PEXPIRE', KEYS[i], life) end
end
return 1
";

/// Renews a lease, and writes the state if there is one. KEYS: the run. ARGV: holder, lease, state or
/// nothing. Returns 0 if the holder has lost the lease.
const UPDATE: &str = r"
if redis.call('HGET', KEYS[1], 'process') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'until', string.format('%d', now + ARGV[2]))
if ARGV[3] then redis.call('HSET', KEYS[1], 'state', ARGV[3]) end
return 1
";

/// Forgets a run. KEYS as of [`INSERT`]; ARGV: holder, id.
const REMOVE: &str = r"
if redis.call('HGET', KEYS[1], 'process') ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('SREM', KEYS[2], ARGV[2])
redis.call('ZREM', KEYS[3], ARGV[2])
return 1
";

/// Claims a run whose lease is over. KEYS: the runs of the request. ARGV: holder, lease, owner, beginning of
/// the keys of runs, bytes of a holder that name its process, id or nothing. Returns `claimed`, id and state;
/// or `held` and the milliseconds of the lease that ends first; or `absent`.
const CLAIM: &str = r"
local own = string.sub(ARGV[1], 1, ARGV[5])
local ids = ARGV[6] and {ARGV[6]} or redis.call('SMEMBERS', KEYS[1])
local held = 0
for _, id in ipairs(ids) do
  local key = ARGV[4] .. id
  local run = redis.call('HMGET', key, 'process', 'until', 'owner', 'state')
  if not run[1] then
    redis.call('SREM', KEYS[1], id)
  elseif run[3] == ARGV[3] then
    local left = tonumber(run[2]) - now
    if left <= 0 then
      redis.call('HSET', key, 'process', ARGV[1], 'until', string.format('%d', now + ARGV[2]))
      return {'claimed', id, run[4]}
    end
    local is_own = string.sub(run[1], 1, ARGV[5]) == own
    if (ARGV[6] or not is_own) and (held == 0 or left < held) then held = left end
  end
end
if held > 0 then return {'held', string.format('%d', held), ''} end
return {'absent', '', ''}
";

/// Runs in Redis.
pub(crate) struct RedisRuns {
    server: RedisStore,
    connection: ConnectionManager,
    insert: Script,
    update: Script,
    remove: Script,
    claim: Script,
}

impl RedisRuns {
    /// Runs at `server`; connects with the first call.
    pub(super) fn new(server: RedisStore) -> Result<RedisRuns, RedisError> {
        let script = |body: &str| Script::new(&format!("{CLOCK}{body}"));
        Ok(RedisRuns {
            connection: connect(&server)?,
            insert: script(INSERT),
            update: script(UPDATE),
            remove: script(REMOVE),
            claim: script(CLAIM),
            server,
        })
    }

    /// Returns the server.
    pub(super) fn server(&self) -> &RedisStore {
        &self.server
    }

    pub(super) async fn insert(
        &self,
        run: &RunRecord,
        state: &str,
        holder: [u8; 16],
    ) -> Result<(), RunStoreError> {
        let [key, of_request, of_owner] = self.keys(run);
        let mut call = self.insert.key(key);
        call.key(of_request).key(of_owner);
        call.arg(&holder[..]).arg(LEASE.as_millis() as u64).arg((run.expires_at - now_ms()).max(1));
        call.arg(&run.owner[..]).arg(state).arg(&run.id).arg(MAX_RUNS_OF_OWNER).arg(self.run_key(""));
        self.ask::<u64>(call).await.map(drop)
    }

    pub(super) async fn update(
        &self,
        id: &str,
        state: Option<&str>,
        lease: Duration,
        holder: [u8; 16],
    ) -> Result<bool, RunStoreError> {
        let mut call = self.update.key(self.run_key(id));
        call.arg(&holder[..]).arg(lease.as_millis() as u64);
        if let Some(state) = state {
            call.arg(state);
        }
        Ok(self.ask::<u64>(call).await? > 0)
    }

    pub(super) async fn remove(&self, run: &RunRecord, holder: [u8; 16]) -> Result<(), RunStoreError> {
        let [key, of_request, of_owner] = self.keys(run);
        let mut call = self.remove.key(key);
        call.key(of_request).key(of_owner).arg(&holder[..]).arg(&run.id);
        self.ask::<u64>(call).await.map(drop)
    }

    pub(super) async fn claim(
        &self,
        lookup: &RunLookup,
        holder: [u8; 16],
    ) -> Result<RunClaim, RunStoreError> {
        let RunLookup { owner, request, id } = lookup;
        let mut call = self.claim.key(self.request_key(owner, request));
        call.arg(&holder[..]).arg(LEASE.as_millis() as u64).arg(&owner[..]).arg(self.run_key(""));
        call.arg(HOLDER_PROCESS_BYTES);
        if let Some(id) = id {
            call.arg(id);
        }
        let (kind, first, state): (String, String, String) = self.ask(call).await?;
        Ok(match kind.as_str() {
            "claimed" => RunClaim::Claimed { id: first, state },
            "held" => RunClaim::Held(first.parse().unwrap_or(LEASE.as_millis() as i64)),
            _ => RunClaim::Absent,
        })
    }

    pub(super) async fn use_answer(&self, digest: [u8; 32]) -> Result<bool, RunStoreError> {
        let key = format!("{}answer:{}", self.server.key_prefix, hex::encode(digest));
        let mut command = redis::cmd("SET");
        command.arg(key).arg("").arg("NX").arg("PX").arg(ANSWER_KNOWN.as_millis() as u64);
        let mut connection = self.connection.clone();
        let set = command.query_async::<Option<String>>(&mut connection);
        Ok(answered(timeout(ANSWER_TIMEOUT, set).await)?.is_some())
    }

    async fn ask<T: FromRedisValue>(&self, call: ScriptInvocation<'_>) -> Result<T, RunStoreError> {
        let mut connection = self.connection.clone();
        answered(timeout(ANSWER_TIMEOUT, call.invoke_async::<T>(&mut connection)).await)
    }

    fn keys(&self, run: &RunRecord) -> [String; 3] {
        let prefix = &self.server.key_prefix;
        [
            self.run_key(&run.id),
            self.request_key(&run.owner, &run.request),
            format!("{prefix}runs-of-owner:{}", hex::encode(run.owner)),
        ]
    }

    fn run_key(&self, id: &str) -> String {
        format!("{}run:{id}", self.server.key_prefix)
    }

    fn request_key(&self, owner: &[u8; 32], request: &[u8; 32]) -> String {
        let (owner, request) = (hex::encode(owner), hex::encode(request));
        format!("{}runs-of-request:{owner}:{request}", self.server.key_prefix)
    }
}

fn answered<T>(
    answer: Result<Result<T, RedisError>, tokio::time::error::Elapsed>,
) -> Result<T, RunStoreError> {
    match answer {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(RunStoreError::new(format!("Redis: {}", error_chain(&error)))),
        Err(_) => Err(RunStoreError::new(format!("Redis gave no answer within {ANSWER_TIMEOUT:?}"))),
    }
}
