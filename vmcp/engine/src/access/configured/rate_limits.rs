//! Rate limits as configured; see [`vmcp_access::rate_limit`] for how they work.

use std::sync::Arc;

use vmcp_access::rate_limit::{Bucket, Limits, RateLimiter, RateLimits, SharedBuckets};
use vmcp_config::{Config, RateLimit, TokenBucket};
use vmcp_error_chain::error_chain;

use crate::access::identity::PrincipalKey;

/// Returns the limiter of a configuration: the one `before`, with its levels, if the limits and their store
/// are the same.
pub(crate) fn rate_limiter(
    before: Option<&Arc<RateLimiter<PrincipalKey>>>,
    config: &Config,
) -> Arc<RateLimiter<PrincipalKey>> {
    let configured = &config.rate_limiting;
    let tools = configured.tools.iter().map(|(tool, limit)| (tool.clone(), limits(limit))).collect();
    let requests = limits(&configured.requests);
    let weights = configured.weights.clone();
    let wanted = RateLimits { all: limits(&configured.all), tools, requests, weights };
    let shared = before.and_then(|before| before.shared());
    let same_store = shared.map(|shared| shared.store()) == configured.store.as_ref();
    if let Some(before) = before.filter(|before| same_store && *before.limits() == wanted) {
        return Arc::clone(before);
    }
    let shared = if same_store { shared.cloned() } else { shared_buckets(config) };
    Arc::new(RateLimiter::new(wanted).with_shared(shared))
}

/// Returns the buckets in Redis, if there are to be any.
fn shared_buckets(config: &Config) -> Option<Arc<SharedBuckets>> {
    match SharedBuckets::new(config.rate_limiting.store.clone()?) {
        Ok(shared) => Some(Arc::new(shared)),
        Err(error) => {
            tracing::error!(
                error = error_chain(&error),
                "Redis is not used; each replica counts its own calls"
            );
            None
        }
    }
}

fn limits(limit: &RateLimit) -> Limits {
    let bucket = |bucket: TokenBucket| Bucket { capacity: bucket.max_tokens, refill: bucket.refill_period };
    Limits { shared: limit.shared.map(bucket), per_user: limit.per_user.map(bucket) }
}
