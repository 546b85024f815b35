//! Token introspection (RFC 7662): the issuer itself says whether a token is good, and whose it is. People
//! write its keys flat among those of their issuer, where [`RawOidc`](super::oidc::RawOidc) reads them.

use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::values::secret::Secret;

/// Range of `introspectionCacheTtl`, up to 10 min: a withdrawn token is good for that long. With `0s`, every
/// request is a request to the provider.
pub(super) const CACHE_TTL: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_mins(10);

/// The introspection endpoint of an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introspection {
    /// URL of the endpoint.
    pub url: Url,
    /// Client identifier of this server at the endpoint.
    pub client_id: String,
    /// Secret of that client.
    pub client_secret: Secret,
    /// Tokens that the issuer is asked about.
    pub tokens: IntrospectedTokens,
    /// Longest time for which an answer counts; `exp` of the token ends it earlier.
    pub cache_ttl: Duration,
}

/// Tokens that an issuer is asked about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum IntrospectedTokens {
    /// Tokens that are no JWT; the provider's keys verify the others.
    #[default]
    Opaque,
    /// All tokens of the issuer; its keys are not fetched.
    All,
}
