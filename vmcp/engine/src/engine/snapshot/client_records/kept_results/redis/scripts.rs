//! Scripts of [`super::RedisResults`]. Each is atomic, and goes by the clock of Redis, so that clocks of
//! replicas do not matter.
//!
//! | key | has |
//! |---|---|
//! | `sizes`, a hash | the bytes of each result, by id |
//! | `expiry`, a sorted set | ids by expiry |
//! | `used`, a sorted set | ids by last use |
//! | `sums`, a hash | bytes of each owner, and of `all` |
//! | `of:OWNER`, a sorted set | ids of one owner by last use |
//! | the id, a hash | chunks by number, and their number `n` |
//!
//! All expire after the last result in them.

use redis::Script;
use vmcp_access::rate_limit::redis_connection::CLOCK;

/// Defines `forget`. KEYS: sizes, expiry, used, sums. The first change frees memory: Redis refuses a script
/// at its memory limit only before the first change.
const FORGET: &str = r"
local function forget(id)
  local bytes, owner = redis.call('HGET', KEYS[1], id), string.sub(id, 1, 64)
  redis.call('UNLINK', ARGV[1] .. id)
  redis.call('HDEL', KEYS[1], id)
  redis.call('ZREM', KEYS[2], id)
  redis.call('ZREM', KEYS[3], id)
  redis.call('ZREM', ARGV[1] .. 'of:' .. owner, id)
  if not bytes then return end
  for _, sum in ipairs({'all', owner}) do
    if redis.call('HINCRBY', KEYS[4], sum, '-' .. bytes) <= 0 then redis.call('HDEL', KEYS[4], sum) end
  end
end
";

/// Enters a result, unless it is there, and makes room for it. KEYS: sizes, expiry, used, sums, ids of the
/// owner. ARGV: beginning of keys, id, bytes, life, most bytes of the owner, most bytes of all, most results
/// of the owner, most results to remove. Returns the number of removed results, and 1 if all are within the
/// bounds. Without the sizes, which Redis may have evicted, the other indexes begin again.
const RESERVE: &str = r"
local id, life, batch = ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[8])
local owner = string.sub(id, 1, 64)
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('DEL', KEYS[2], KEYS[3], KEYS[4]) end
for _, old in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, batch)) do forget(old) end
if redis.call('HEXISTS', KEYS[1], id) == 0 then
  redis.call('HSET', KEYS[1], id, ARGV[3])
  redis.call('ZADD', KEYS[2], now + life, id)
  redis.call('ZADD', KEYS[3], now, id)
  redis.call('ZADD', KEYS[5], now, id)
  redis.call('HINCRBY', KEYS[4], 'all', ARGV[3])
  redis.call('HINCRBY', KEYS[4], owner, ARGV[3])
  for i = 1, 5 do
    if redis.call('PTTL', KEYS[i]) < life then redis.call('PEXPIRE', KEYS[i], ARGV[4]) end
  end
end
local function sum(name) return tonumber(redis.call('HGET', KEYS[4], name) or 0) end
local evicted = 0
while evicted < batch do
  local order
  if sum(owner) > tonumber(ARGV[5]) or redis.call('ZCARD', KEYS[5]) > tonumber(ARGV[7]) then
    order = KEYS[5]
  elseif sum('all') > tonumber(ARGV[6]) then
    order = KEYS[3]
  end
  if not order then return {evicted, 1} end
  local oldest = redis.call('ZRANGE', order, 0, 1)
  local gone = oldest[1] ~= id and oldest[1] or oldest[2]
  if not gone then return {evicted, 1} end
  forget(gone)
  evicted = evicted + 1
end
return {evicted, 0}
";

/// Writes a chunk of a result that is entered. KEYS: sizes, the chunks. ARGV: id, number, chunk, life, number
/// of chunks. Returns 0 if the result has given way.
const WRITE: &str = r"
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3], 'n', ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return 1
";

/// Notes a use, and returns the number of chunks. KEYS: used, ids of the owner, the chunks. ARGV: id. At its
/// memory limit Redis refuses the note; the result is read without it.
const TOUCH: &str = r"
redis.pcall('ZADD', KEYS[1], 'XX', now, ARGV[1])
redis.pcall('ZADD', KEYS[2], 'XX', now, ARGV[1])
return redis.call('HGET', KEYS[3], 'n')
";

/// Removes a result. KEYS as of [`FORGET`]. ARGV: beginning of keys, id.
const REMOVE: &str = r"
forget(ARGV[2])
return 1
";

/// Makes the script that enters a result.
pub(super) fn reserve() -> Script {
    Script::new(&format!("{CLOCK}{FORGET}{RESERVE}"))
}

/// Makes the script that writes a chunk.
pub(super) fn write() -> Script {
    Script::new(WRITE)
}

/// Makes the script that notes a use.
pub(super) fn touch() -> Script {
    Script::new(&format!("{CLOCK}{TOUCH}"))
}

/// Makes the script that removes a result.
pub(super) fn remove() -> Script {
    Script::new(&format!("{FORGET}{REMOVE}"))
}
