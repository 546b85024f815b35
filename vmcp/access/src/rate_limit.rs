//! [`RateLimiter`]: token buckets for calls of tools, of all callers together and of each.
//!
//! A call takes one token from each of its buckets, or, if one is empty, from none. The buckets of a process
//! are pure: the time is passed in. [`SharedBuckets`] are buckets of several replicas, in Redis, which
//! [`redis_connection`] reaches. [`LogLimit`] limits log lines.

mod log_limit;
pub mod redis_connection;
mod shared_buckets;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

pub use self::log_limit::LogLimit;
pub use self::shared_buckets::SharedBuckets;

/// Least number of buckets at which full ones are dropped; a full bucket is the same as none.
const PRUNE_AT: usize = 4096;

/// A token bucket: holds `capacity` calls, and fills up within `refill`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Most calls at once.
    pub capacity: u32,
    /// Time in which an empty bucket becomes full.
    pub refill: Duration,
}

/// Limits of one kind of call.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// Of all callers together.
    pub shared: Option<Bucket>,
    /// Of each caller.
    pub per_user: Option<Bucket>,
}

/// The limits of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RateLimits {
    /// Limits of all calls.
    pub all: Limits,
    /// Further limits of calls of single tools, by name.
    pub tools: HashMap<Box<str>, Limits>,
    /// Limits of all requests.
    pub requests: Limits,
    /// Tokens that a request takes, by name; others take [`DEFAULT_WEIGHT`].
    pub weights: BTreeMap<Box<str>, u32>,
}

/// Tokens of a request whose name has no weight.
const DEFAULT_WEIGHT: u32 = 1;
/// The name under which the buckets of requests are kept; no tool has it.
const REQUESTS: &str = "\0requests";

impl RateLimits {
    /// Returns the buckets that a request belongs to.
    fn buckets_of_requests(&self) -> impl Iterator<Item = (Scope, Bucket)> {
        let buckets =
            [(Scope::Requests, self.requests.shared), (Scope::UserRequests, self.requests.per_user)];
        buckets.into_iter().filter_map(|(scope, bucket)| Some((scope, bucket?)))
    }

    /// Returns the tokens of a request: by its tool, else by its method, the second name. Only the method is
    /// vmcp's own word: a client may call anything `ping`.
    fn weight_of(&self, names: [&str; 2]) -> u32 {
        let configured = names.into_iter().find_map(|name| self.weights.get(name).copied());
        let [_, method] = names;
        configured.unwrap_or(if method == "ping" { 0 } else { DEFAULT_WEIGHT })
    }

    /// Returns the buckets that a call of `tool` belongs to.
    fn buckets_of(&self, tool: &str) -> impl Iterator<Item = (Scope, Bucket)> {
        let of_tool = self.tools.get(tool).copied().unwrap_or_default();
        let buckets = [
            (Scope::Server, self.all.shared),
            (Scope::User, self.all.per_user),
            (Scope::Tool, of_tool.shared),
            (Scope::UserTool, of_tool.per_user),
        ];
        buckets.into_iter().filter_map(|(scope, bucket)| Some((scope, bucket?)))
    }
}

/// A refusal: a bucket is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limited {
    /// The emptiest bucket.
    pub scope: Scope,
    /// Time until every bucket of the call has a token.
    pub retry_after: Duration,
}

/// Owners of a bucket, as messages and metrics name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All callers together.
    Server,
    /// One caller.
    User,
    /// All calls of one tool.
    Tool,
    /// One caller's calls of one tool.
    UserTool,
    /// All requests.
    Requests,
    /// One caller's requests.
    UserRequests,
}

impl Scope {
    /// Returns the name of the scope in the keys of the counters.
    pub fn label(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::User => "user",
            Self::Tool => "tool",
            Self::UserTool => "user_tool",
            Self::Requests => "requests",
            Self::UserRequests => "user_requests",
        }
    }

    /// Returns the scope in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Server => "all calls of this server",
            Self::User => "your calls of this server",
            Self::Tool => "all calls of this tool",
            Self::UserTool => "your calls of this tool",
            Self::Requests => "all requests of this server",
            Self::UserRequests => "your requests of this server",
        }
    }
}

/// The state of all buckets; `User` tells callers apart.
#[derive(Debug)]
pub struct RateLimiter<User> {
    limits: RateLimits,
    buckets: Mutex<Buckets<User>>,
    shared: Option<Arc<SharedBuckets>>,
}

/// The buckets that are not full, and some that are.
#[derive(Debug)]
struct Buckets<User> {
    levels: HashMap<Key<User>, Level>,
    /// Number of buckets at which the full ones are dropped next.
    prune_at: usize,
}

type Key<User> = (Option<User>, Option<Box<str>>);

/// Tokens of a bucket at a moment.
#[derive(Debug, Clone, Copy)]
struct Level {
    tokens: f64,
    at: Instant,
    bucket: Bucket,
}

impl Level {
    fn full(bucket: Bucket, now: Instant) -> Self {
        Self { tokens: f64::from(bucket.capacity), at: now, bucket }
    }

    /// The level at `now`: tokens come evenly.
    fn at(self, now: Instant) -> Self {
        let capacity = f64::from(self.bucket.capacity);
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        let come = passed * capacity / self.bucket.refill.as_secs_f64();
        Self { tokens: (self.tokens + come).min(capacity), at: now, ..self }
    }

    /// Time until there are `weight` tokens.
    fn wait(self, weight: u32) -> Option<Duration> {
        let missing = f64::from(weight) - self.tokens;
        let per_token = self.bucket.refill.as_secs_f64() / f64::from(self.bucket.capacity);
        (missing > 0.0).then(|| Duration::from_secs_f64(missing * per_token))
    }

    fn is_full(self) -> bool {
        self.tokens >= f64::from(self.bucket.capacity)
    }
}

impl<User: Clone + Display + Eq + Hash> RateLimiter<User> {
    /// A limiter whose buckets are full.
    pub fn new(limits: RateLimits) -> Self {
        let buckets = Buckets { levels: HashMap::new(), prune_at: PRUNE_AT };
        Self { limits, buckets: Mutex::new(buckets), shared: None }
    }

    /// Uses buckets in Redis, as long as it answers.
    #[must_use]
    pub fn with_shared(self, shared: Option<Arc<SharedBuckets>>) -> Self {
        Self { shared, ..self }
    }

    /// Returns the buckets in Redis.
    pub fn shared(&self) -> Option<&Arc<SharedBuckets>> {
        self.shared.as_ref()
    }

    /// Returns the limits.
    pub fn limits(&self) -> &RateLimits {
        &self.limits
    }

    /// Takes a token of each bucket of a call, or none if one is empty: in Redis, or in this process without
    /// it and while it does not answer.
    pub async fn take(&self, user: &User, tool: &str) -> Result<(), Limited> {
        self.take_of(user, tool, self.limits.buckets_of(tool), 1).await
    }

    /// Takes the tokens of a request, which has a weight by the first of its names that has one.
    pub async fn take_request(&self, user: &User, names: [&str; 2]) -> Result<(), Limited> {
        let weight = self.limits.weight_of(names);
        if self.limits.requests == Limits::default() || weight == 0 {
            return Ok(());
        }
        self.take_of(user, REQUESTS, self.limits.buckets_of_requests(), weight).await
    }

    async fn take_of(
        &self,
        user: &User,
        tool: &str,
        wanted: impl Iterator<Item = (Scope, Bucket)>,
        weight: u32,
    ) -> Result<(), Limited> {
        let wanted: Vec<(Scope, Bucket)> = wanted.collect();
        if wanted.is_empty() {
            return Ok(());
        }
        if let Some(shared) = &self.shared {
            let keyed = |(scope, bucket): (Scope, Bucket)| {
                let key = match scope {
                    Scope::Server | Scope::Requests => scope.label().to_owned(),
                    Scope::User | Scope::UserRequests => format!("{}:{user}", scope.label()),
                    Scope::Tool => format!("{}:{tool}", scope.label()),
                    Scope::UserTool => format!("{}:{user}:{tool}", scope.label()),
                };
                (scope, key, bucket)
            };
            let buckets: Vec<_> = wanted.iter().copied().map(keyed).collect();
            // Boxed: without Redis, calls do not carry the state of a conversation with it.
            if let Some(taken) = Box::pin(shared.take(&buckets, weight)).await {
                return taken;
            }
        }
        self.take_here(user, tool, &wanted, weight, Instant::now())
    }

    /// As [`RateLimiter::take`], of the buckets of this process.
    fn take_here(
        &self,
        user: &User,
        tool: &str,
        wanted: &[(Scope, Bucket)],
        weight: u32,
        now: Instant,
    ) -> Result<(), Limited> {
        let mut buckets = self.buckets.lock();
        let mut taken: [Option<(Key<User>, Level)>; 4] = [const { None }; 4];
        let mut limited: Option<Limited> = None;
        for ((scope, bucket), taken) in wanted.iter().copied().zip(&mut taken) {
            let of_user = matches!(scope, Scope::User | Scope::UserTool | Scope::UserRequests);
            let of_tool = !matches!(scope, Scope::Server | Scope::User);
            let key: Key<User> = (of_user.then(|| user.clone()), of_tool.then(|| tool.into()));
            let level = buckets.levels.get(&key).copied().unwrap_or_else(|| Level::full(bucket, now)).at(now);
            if let Some(retry_after) = level.wait(weight)
                && limited.is_none_or(|other| other.retry_after < retry_after)
            {
                limited = Some(Limited { scope, retry_after });
            }
            *taken = Some((key, Level { tokens: level.tokens - f64::from(weight), ..level }));
        }
        if let Some(limited) = limited {
            return Err(limited);
        }
        if buckets.levels.len() >= buckets.prune_at {
            buckets.levels.retain(|_, level| !level.at(now).is_full());
            buckets.prune_at = PRUNE_AT.max(2 * buckets.levels.len());
        }
        buckets.levels.extend(taken.into_iter().flatten());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn bucket(capacity: u32, seconds: u32) -> Bucket {
        Bucket { capacity, refill: SECOND * seconds }
    }

    #[test]
    fn a_call_takes_of_every_bucket_or_of_none() {
        let all = Limits { shared: Some(bucket(5, 10)), per_user: Some(bucket(2, 10)) };
        let tools = [("drop".into(), Limits { shared: Some(bucket(1, 60)), per_user: None })].into();
        let limiter = RateLimiter::new(RateLimits { all, tools, ..RateLimits::default() });
        let now = Instant::now();
        let take = |user, tool: &str, after| {
            let buckets: Vec<_> = limiter.limits.buckets_of(tool).collect();
            limiter.take_here(&user, tool, &buckets, 1, now + after)
        };
        assert_eq!(take("alice", "drop", Duration::ZERO), Ok(()));
        let of_tool = take("bob", "drop", Duration::ZERO).unwrap_err();
        assert_eq!((of_tool.scope, of_tool.retry_after), (Scope::Tool, SECOND * 60));
        assert_eq!(take("alice", "other", Duration::ZERO), Ok(()));
        let of_user = take("alice", "other", Duration::ZERO).unwrap_err();
        assert_eq!((of_user.scope, of_user.retry_after), (Scope::User, SECOND * 5));
        // The refused calls have taken nothing: bob has both of his.
        for _ in 0..2 {
            assert_eq!(take("bob", "other", Duration::ZERO), Ok(()));
        }
        assert_eq!(take("carol", "other", Duration::ZERO), Ok(()));
        assert_eq!(take("dave", "other", Duration::ZERO).unwrap_err().scope, Scope::Server);
        assert_eq!(take("alice", "other", SECOND * 5), Ok(()), "half of the time brings half of the tokens");
    }

    #[tokio::test]
    async fn requests_of_every_method_take_tokens_by_their_weight() {
        let requests = Limits { shared: None, per_user: Some(bucket(10, 3600)) };
        let weights = [("optim.find_tool".into(), 4), ("resources/read".into(), 2)].into();
        let limiter = RateLimiter::new(RateLimits { requests, weights, ..RateLimits::default() });
        let take = async |user: &'static str, names| limiter.take_request(&user, names).await;
        for _ in 0..100 {
            assert_eq!(take("alice", ["", "ping"]).await, Ok(()), "a ping is free");
        }
        assert_eq!(take("alice", ["optim.find_tool", "tools/call"]).await, Ok(()));
        assert_eq!(take("alice", ["optim.find_tool", "tools/call"]).await, Ok(()));
        let refusal = take("alice", ["optim.find_tool", "tools/call"]).await.unwrap_err();
        assert_eq!(refusal.scope, Scope::UserRequests);
        assert_eq!(take("alice", ["file:///x", "resources/read"]).await, Ok(()));
        assert!(take("alice", ["", "tools/list"]).await.is_err());
        assert_eq!(take("bob", ["", "tools/list"]).await, Ok(()));
        assert_eq!(limiter.take(&"alice", "tool").await, Ok(()), "calls have buckets of their own");
    }

    #[tokio::test]
    async fn only_the_method_makes_a_request_a_ping() {
        let requests = Limits { shared: None, per_user: Some(bucket(2, 3600)) };
        let limiter = RateLimiter::new(RateLimits { requests, ..RateLimits::default() });
        for free in [true, true, false] {
            assert_eq!(limiter.take_request(&"alice", ["ping", "tools/call"]).await.is_ok(), free);
            assert!(limiter.take_request(&"alice", ["", "ping"]).await.is_ok());
        }
    }

    #[test]
    fn buckets_of_callers_that_went_away_are_dropped() {
        let all = Limits { shared: None, per_user: Some(bucket(1, 1)) };
        let limiter = RateLimiter::new(RateLimits { all, ..RateLimits::default() });
        let now = Instant::now();
        let take = |user: usize, at| {
            let buckets: Vec<_> = limiter.limits.buckets_of("t").collect();
            limiter.take_here(&user, "t", &buckets, 1, at)
        };
        for user in 0..PRUNE_AT {
            take(user, now).unwrap();
        }
        take(PRUNE_AT, now + SECOND * 2).unwrap();
        assert_eq!(limiter.buckets.lock().levels.len(), 1);
        assert!(take(PRUNE_AT, now + SECOND * 2).is_err(), "of one that is there it is kept");
    }
}
