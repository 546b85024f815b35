//! `rateLimiting`: token buckets for calls of tools.

pub(crate) mod session_storage;

use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::session_storage::{RawSessionStorage, RedisStore};
use crate::problems::{self, Report, item};
use crate::values::duration::{self, MAX_DURATION, RawDuration};

/// Range of the time in which an empty bucket becomes full, 1 s to 24 h.
const REFILL_PERIOD: RangeInclusive<Duration> = Duration::from_secs(1)..=MAX_DURATION;

/// Limits on calls of tools. Calls beyond are refused with the time after which to try again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RateLimiting {
    /// Limits of all calls.
    pub all: RateLimit,
    /// Further limits of calls of single tools: name and limits.
    pub tools: Vec<(Box<str>, RateLimit)>,
    /// Limits of all requests, whatever their method.
    pub requests: RateLimit,
    /// Tokens that a request takes, by method, own tool or path; others take one.
    pub weights: BTreeMap<Box<str>, u32>,
    /// Store of the buckets, from `sessionStorage`; `None`: the memory of each replica.
    pub store: Option<RedisStore>,
}

/// Limits of one kind of call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimit {
    /// Bucket of all clients together.
    pub shared: Option<TokenBucket>,
    /// Bucket of each client.
    pub per_user: Option<TokenBucket>,
}

/// A token bucket: every call takes a token, and tokens come evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    /// Most tokens in it.
    pub max_tokens: u32,
    /// Time in which it fills up.
    pub refill_period: Duration,
}

/// Limits on calls of tools, however they are called: a call takes a token of each bucket it belongs to.
/// Calls beyond are refused with the time after which to try again. Each replica has buckets of its own,
/// unless they share those in Redis: `sessionStorage`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "RateLimiting")]
pub struct RawRateLimiting {
    /// Bucket of all clients together.
    pub shared: Option<RawTokenBucket>,
    /// Bucket of each client: by identity, or by address where clients have none.
    pub per_user: Option<RawTokenBucket>,
    /// Further limits of single tools.
    pub tools: Vec<RawToolRateLimit>,
    /// Limits of all requests, of every method.
    pub requests: Option<RawRequestRateLimit>,
}

/// Limits of all requests: calls, reads, lists, searches, `GET /tools`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "RequestRateLimit")]
pub struct RawRequestRateLimit {
    /// Bucket of all clients together.
    pub shared: Option<RawTokenBucket>,
    /// Bucket of each client: by identity, or by address where clients have none.
    pub per_user: Option<RawTokenBucket>,
    /// Tokens that a request takes: by method (`resources/read`), own tool (`optim.find_tool`), tool, or
    /// `GET /tools`; 0: none. Others take one, and `ping` none.
    #[serde(default)]
    pub weights: BTreeMap<String, u32>,
}

/// Limits of one tool.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ToolRateLimit")]
pub struct RawToolRateLimit {
    /// Name of the tool, as clients see it.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Bucket of all clients together.
    pub shared: Option<RawTokenBucket>,
    /// Bucket of each client.
    pub per_user: Option<RawTokenBucket>,
}

/// A token bucket.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "TokenBucket")]
pub struct RawTokenBucket {
    /// Most calls at once.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_tokens: u32,
    /// Time in which an empty bucket fills up; tokens come evenly.
    #[schemars(extend("x-range" = duration::words(&REFILL_PERIOD)))]
    pub refill_period: RawDuration,
}

impl RawRateLimiting {
    pub(crate) fn validate(&self, storage: &RawSessionStorage, report: &mut Report) -> RateLimiting {
        let path = "rateLimiting";
        let all = limit(self.shared.as_ref(), self.per_user.as_ref(), path, report);
        let mut names = HashSet::new();
        let mut tools = Vec::with_capacity(self.tools.len());
        for (index, tool) in self.tools.iter().enumerate() {
            let path = item("rateLimiting.tools", index);
            if !names.insert(&tool.name) {
                let message = format!("`{}` has limits already", tool.name);
                report.problem(&format!("{path}.name"), message, "write all limits of a tool in one entry");
            }
            if tool.shared.is_none() && tool.per_user.is_none() {
                report.problem(&path, "limits nothing", "give it `shared`, `perUser` or both");
            }
            let limit = limit(tool.shared.as_ref(), tool.per_user.as_ref(), &path, report);
            tools.push((tool.name.as_str().into(), limit));
        }
        let (requests, weights) = self.requests.as_ref().map(|raw| raw.validate(report)).unwrap_or_default();
        RateLimiting { all, tools, requests, weights, store: storage.validate(report) }
    }
}

impl RawRequestRateLimit {
    fn validate(&self, report: &mut Report) -> (RateLimit, BTreeMap<Box<str>, u32>) {
        let path = "rateLimiting.requests";
        if self.shared.is_none() && self.per_user.is_none() {
            report.problem(path, "limits nothing", "give it `shared`, `perUser` or both");
        }
        let limit = limit(self.shared.as_ref(), self.per_user.as_ref(), path, report);
        let buckets = [limit.shared, limit.per_user].into_iter().flatten();
        let least = buckets.map(|bucket| bucket.max_tokens).min().unwrap_or(u32::MAX);
        for (name, weight) in self.weights.iter().filter(|(_, weight)| **weight > least) {
            report.problem(
                &problems::key("rateLimiting.requests.weights", name),
                format!("{weight} tokens are more than the {least} of a full bucket"),
                "write a smaller weight, or a larger `maxTokens`",
            );
        }
        (limit, self.weights.iter().map(|(name, weight)| (name.as_str().into(), *weight)).collect())
    }
}

fn limit(
    shared: Option<&RawTokenBucket>,
    per_user: Option<&RawTokenBucket>,
    path: &str,
    report: &mut Report,
) -> RateLimit {
    let mut bucket = |raw: Option<&RawTokenBucket>, key: &str| {
        raw.map(|raw| {
            let path = format!("{path}.{key}.refillPeriod");
            let refill_period = raw.refill_period.validate(&path, &REFILL_PERIOD, report);
            TokenBucket { max_tokens: raw.max_tokens, refill_period }
        })
    };
    RateLimit { shared: bucket(shared, "shared"), per_user: bucket(per_user, "perUser") }
}
