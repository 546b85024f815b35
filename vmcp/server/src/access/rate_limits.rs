//! Rate limits as configured; see [`vmcp_access::rate_limit`] for how they work.

use std::sync::Arc;

use vmcp_access::rate_limit::{Bucket, Limits, RateLimiter, RateLimits};
use vmcp_config::{Config, RateLimit, TokenBucket};

use super::identity::PrincipalKey;

/// Returns the limiter of a configuration: the one `before`, with its levels, if the limits are the same.
pub(crate) fn rate_limiter(
    before: Option<&Arc<RateLimiter<PrincipalKey>>>,
    config: &Config,
) -> Arc<RateLimiter<PrincipalKey>> {
    let configured = &config.rate_limiting;
    let tools = configured.tools.iter().map(|(tool, limit)| (tool.clone(), limits(limit))).collect();
    let wanted = RateLimits { all: limits(&configured.all), tools };
    let same = before.filter(|before| *before.limits() == wanted);
    same.map_or_else(|| Arc::new(RateLimiter::new(wanted)), Arc::clone)
}

fn limits(limit: &RateLimit) -> Limits {
    let bucket = |bucket: TokenBucket| Bucket { capacity: bucket.max_tokens, refill: bucket.refill_period };
    Limits { shared: limit.shared.map(bucket), per_user: limit.per_user.map(bucket) }
}
