//! Token introspection (RFC 7662): the issuer itself says whether a token is good, and whose it is.
//!
//! This file and `oidc` name each other: people write the keys of introspection flat among those of their
//! issuer, and its raw block follows them.

use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::oidc::RawOidc;
use crate::problems::{self, Report};
use crate::values::http_url;
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

/// Validates the settings of a block at `path`; `None` without an endpoint.
pub(super) fn validate(raw: &RawOidc, path: &str, report: &mut Report) -> Option<Introspection> {
    let at = |key: &str| problems::key(path, key);
    let cache_ttl = raw.introspection_cache_ttl.validate(&at("introspectionCacheTtl"), &CACHE_TTL, report);
    let Some(url) = raw.introspection_url.as_deref() else {
        let given = [
            ("clientId", raw.client_id.is_some()),
            ("clientSecret", raw.client_secret.is_some()),
            ("introspect", raw.introspect != IntrospectedTokens::default()),
        ];
        for (key, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
            let message = "not used without `introspectionUrl`: keys verify the tokens";
            report.problem(&at(key), message, "remove it, or add `introspectionUrl`");
        }
        return None;
    };
    let client_id = raw.client_id.clone().filter(|id| !id.is_empty());
    let secret = raw.client_secret.clone().filter(|secret| !secret.expose().is_empty());
    for (key, is_missing) in [("clientId", client_id.is_none()), ("clientSecret", secret.is_none())] {
        if is_missing && !report.is_dropped(&at(key)) {
            let remedy = "register this server at the provider, as a client that may introspect tokens";
            report.problem(&at(key), "missing: `introspectionUrl` asks for it", remedy);
        }
    }
    let path = at("introspectionUrl");
    let url = http_url::validate(url, &path, report)?;
    if url.scheme() == "http" && !raw.insecure_allow_http {
        report.problem(
            &path,
            "tokens and the client's secret would travel unencrypted",
            "use an https:// URL; for development, set `insecureAllowHttp: true`",
        );
    }
    Some(Introspection {
        url,
        client_id: client_id?,
        client_secret: secret?,
        tokens: raw.introspect,
        cache_ttl,
    })
}
