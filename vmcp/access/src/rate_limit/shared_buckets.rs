//! [`SharedBuckets`]: token buckets in Redis, which the replicas of a server share.

use std::time::Duration;

use redis::aio::ConnectionManager;
use redis::{RedisError, Script};
use tokio::time::timeout;
use vmcp_config::RedisStore;
use vmcp_error_chain::error_chain;

use super::redis_connection::{ANSWER_TIMEOUT, Outage, connect};
use super::{Bucket, Limited, Scope};

/// Takes a token of each bucket, or none if one is empty: atomic, and by the clock of Redis, so that clocks
/// of replicas do not matter. KEYS are the buckets; ARGV has two numbers for each, its capacity and the
/// seconds in which it fills up, and at last the number of tokens to take of each. Returns the position of
/// the emptiest bucket (0: the tokens were taken) and the milliseconds until it has enough. A key expires
/// once its bucket is full, which is the same as none.
const TAKE: &str = r"
local weight = tonumber(ARGV[2 * #KEYS + 1] or 1)
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000
local levels, emptiest, wait = {}, 0, 0
for i, key in ipairs(KEYS) do
  local capacity, refill = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local saved = redis.call('HMGET', key, 'tokens', 'at')
  local tokens = capacity
  if saved[1] and saved[2] then
    local passed = math.max(0, now - tonumber(saved[2]))
    tokens = math.min(capacity, tonumber(saved[1]) + passed * capacity / refill)
  end
  local missing = (weight - tokens) * refill / capacity
  if missing > wait then
    emptiest, wait = i, missing
  end
  levels[i] = tokens
end
if emptiest > 0 then
  return {emptiest, math.ceil(wait * 1000)}
end
for i, key in ipairs(KEYS) do
  redis.call('HSET', key, 'tokens', string.format('%.9f', levels[i] - weight), 'at', string.format('%.6f', now))
  redis.call('PEXPIRE', key, math.ceil(ARGV[2 * i] * 1000))
end
return {0, 0}
";

/// Token buckets in Redis.
pub struct SharedBuckets {
    store: RedisStore,
    connection: ConnectionManager,
    script: Script,
    /// A call that has waited for Redis in vain counts in this replica.
    outage: Outage,
}

impl std::fmt::Debug for SharedBuckets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedBuckets").field("store", &self.store).finish_non_exhaustive()
    }
}

impl SharedBuckets {
    /// Buckets in `store`; connects with the first call.
    pub fn new(store: RedisStore) -> Result<Self, RedisError> {
        let connection = connect(&store)?;
        Ok(Self { store, connection, script: Script::new(TAKE), outage: Outage::default() })
    }

    /// Returns the server that the buckets are in.
    pub fn store(&self) -> &RedisStore {
        &self.store
    }

    /// True unless the last answer of Redis failed to come.
    pub fn is_up(&self) -> bool {
        !self.outage.is_on()
    }

    /// Takes `weight` tokens of each bucket, or none if one has fewer; `None` if Redis does not answer.
    pub(super) async fn take(
        &self,
        buckets: &[(Scope, String, Bucket)],
        weight: u32,
    ) -> Option<Result<(), Limited>> {
        if !self.outage.may_ask() {
            return None;
        }
        let mut call = self.script.prepare_invoke();
        for (_, key, Bucket { capacity, refill }) in buckets {
            call.key(format!("{}rate:{key}", self.store.key_prefix)).arg(*capacity).arg(refill.as_secs_f64());
        }
        call.arg(weight);
        let mut connection = self.connection.clone();
        let answer = timeout(ANSWER_TIMEOUT, call.invoke_async::<(usize, u64)>(&mut connection)).await;
        let (emptiest, milliseconds) = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return self.failed(&error_chain(&error)),
            Err(_) => return self.failed(&format!("no answer within {ANSWER_TIMEOUT:?}")),
        };
        if self.outage.end() {
            tracing::info!("Redis answers again; the rate limits are shared by all replicas");
        }
        let Some((scope, ..)) = emptiest.checked_sub(1).and_then(|place| buckets.get(place)) else {
            return Some(Ok(()));
        };
        Some(Err(Limited { scope: *scope, retry_after: Duration::from_millis(milliseconds) }))
    }

    fn failed<T>(&self, reason: &str) -> Option<T> {
        if self.outage.begin() {
            let RedisStore { host, port, .. } = &self.store;
            tracing::warn!(
                host,
                port,
                reason,
                "Redis does not answer; until it does, each replica counts its own calls against the rate limits"
            );
        }
        None
    }
}
