//! `incomingAuth.oidc`: an identity provider whose access tokens are accepted.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::introspection::{self, IntrospectedTokens, Introspection};
use super::source_naming::{self, RawSourceGroups, SourceNaming};
use super::token_binding::TokenBinding;
use crate::problems::{self, Report};
use crate::values::duration::{self, RawDuration};
use crate::values::http_url;
use crate::values::secret::Secret;

/// Range of `clockSkew`, up to 10 min: beyond it, expiry would mean little.
const CLOCK_SKEW: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_mins(10);

/// `keyMaxAge`, unless configured.
const KEY_MAX_AGE_DEFAULT: Duration = Duration::from_hours(24);
/// Range of `keyMaxAge`: between two regular fetches of keys, and 30 days.
const KEY_MAX_AGE: RangeInclusive<Duration> = Duration::from_mins(10)..=Duration::from_hours(30 * 24);
/// Claims of RFC 7519, and of bound tokens, which no mapping replaces.
const REGISTERED: [&str; 8] = ["iss", "sub", "aud", "exp", "nbf", "iat", "jti", "cnf"];

/// An identity provider whose access tokens are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcIssuer {
    /// Issuer, compared to the claim `iss` as text.
    pub issuer: String,
    /// The issuer as a URL, below which its metadata lies.
    pub issuer_url: Url,
    /// Audiences, one of which must be in the claim `aud`.
    pub audience: String,
    /// Canonical URL of this server, for its metadata (RFC 9728); `None`: taken from each request.
    pub resource: Option<Url>,
    /// URL of the key set; `None`: read from the provider's metadata.
    pub jwks_url: Option<Url>,
    /// File with the key set, in place of the provider's; it is read again whenever keys would be fetched.
    pub jwks_path: Option<PathBuf>,
    /// Scopes that clients are told to ask for.
    pub scopes: Vec<String>,
    /// Scopes that a token must have; one that lacks any is answered with 403.
    pub required_scopes: Vec<String>,
    /// Accepted types of tokens (header `typ`); empty: `at+jwt`, `JWT`, or none.
    pub token_types: Vec<String>,
    /// Names of the issuer's clients and groups in policies.
    pub naming: SourceNaming,
    /// Claims that policies read, and the paths in tokens that they are taken from.
    pub claim_mapping: BTreeMap<String, String>,
    /// Paths of claims, and the values of which a token must have one.
    pub required_claims: BTreeMap<String, Vec<String>>,
    /// Tolerance of `exp` and `nbf`.
    pub clock_skew: Duration,
    /// Time for which keys stay in use while the provider cannot be reached.
    pub key_max_age: Duration,
    /// The endpoint that says whether a token is good; `None`: the keys of the issuer verify tokens.
    pub introspection: Option<Introspection>,
    /// Binding to a key of its holder that a token must have.
    pub required_binding: TokenBinding,
    /// True if metadata and keys may be fetched without TLS.
    pub insecure_allow_http: bool,
    /// True if the provider may have a private or loopback address.
    pub allow_private_addresses: bool,
    /// PEM file of certificate authorities that are trusted besides those of the system.
    pub ca_bundle_path: Option<PathBuf>,
}

impl OidcIssuer {
    /// Makes an issuer whose other settings have their defaults.
    pub(super) fn new(issuer: String, issuer_url: Url, audience: String, clock_skew: Duration) -> OidcIssuer {
        OidcIssuer {
            issuer,
            issuer_url,
            audience,
            resource: None,
            jwks_url: None,
            jwks_path: None,
            scopes: Vec::new(),
            required_scopes: Vec::new(),
            token_types: Vec::new(),
            naming: SourceNaming::default(),
            claim_mapping: BTreeMap::new(),
            required_claims: BTreeMap::new(),
            clock_skew,
            key_max_age: KEY_MAX_AGE_DEFAULT,
            introspection: None,
            required_binding: TokenBinding::None,
            insecure_allow_http: false,
            allow_private_addresses: false,
            ca_bundle_path: None,
        }
    }
}

/// An identity provider whose access tokens are accepted.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Oidc")]
pub struct RawOidc {
    /// Required. Issuer, exactly as in the claim `iss`, such as `https://login.example.com/realms/team`.
    /// Metadata is read from its `/.well-known/openid-configuration`.
    pub issuer: Option<String>,
    /// Audience that a token must be for (claim `aud`). Default: `resource`; one of the two is required.
    pub audience: Option<String>,
    /// URL at which clients reach this server, such as `https://tools.example.com/mcp`: told to clients as
    /// the protected resource (RFC 9728). Default: taken from the `Host` of each request.
    pub resource: Option<String>,
    /// URL of the key set (JWKS). Default: read from the provider's metadata.
    pub jwks_url: Option<String>,
    /// File with the key set (JWKS), in place of `jwksUrl`, such as keys of an issuer that this process
    /// cannot reach. It is read again every ten minutes, and when a token names another key. At most 1 MiB.
    pub jwks_path: Option<String>,
    /// Scopes that clients are told to ask for. Default: `requiredScopes`.
    pub scopes: Vec<String>,
    /// Scopes that a token must have (claims `scope`, `scp`); one that lacks any is answered with 403.
    pub required_scopes: Vec<String>,
    /// Accepted types of tokens (header `typ`). Default: `at+jwt`, `JWT`, or no type. ID tokens, logout
    /// tokens, DPoP proofs and the like are refused, whatever is listed.
    pub token_types: Vec<String>,
    /// Prefix of the issuer's subjects in policies, `Client::"<prefix><sub>"`. Default: none for the first
    /// source of identities, `<issuer>#` for others.
    pub subject_prefix: Option<String>,
    /// Groups of the issuer's tokens that policies see. Default: `all` for the first source of identities,
    /// `prefix` for others.
    pub groups: Option<RawSourceGroups>,
    /// Prefix of groups, with `groups: prefix`. Default: `subjectPrefix`.
    pub group_prefix: Option<String>,
    /// Groups that count, with `groups: allowList`.
    pub allowed_groups: Vec<String>,
    /// Claims that policies read, by the path in the token that each is taken from (dots, or a JSON Pointer).
    /// A claim of the token's own with that name does not count.
    pub claim_mapping: BTreeMap<String, String>,
    /// Claims that a token must have, by path, each with the accepted values; a list must have one of them.
    pub required_claims: BTreeMap<String, Vec<String>>,
    /// Tolerance of the claims `exp` and `nbf`, for clocks that differ.
    #[schemars(extend("x-range" = duration::words(&CLOCK_SKEW)))]
    pub clock_skew: RawDuration,
    /// Time for which keys stay in use while the provider cannot be reached; then its tokens are refused
    /// until it answers. A provider that answers withdraws a key within ten minutes.
    #[schemars(extend("x-range" = duration::words(&KEY_MAX_AGE)))]
    pub key_max_age: RawDuration,
    /// URL of the introspection endpoint (RFC 7662), which says whether an opaque token is good. One issuer
    /// may have one.
    pub introspection_url: Option<String>,
    /// Client identifier of this server at `introspectionUrl`.
    pub client_id: Option<String>,
    /// Secret of that client.
    pub client_secret: Option<Secret>,
    /// Tokens that `introspectionUrl` is asked about: `opaque` ones, or `all` of the issuer, so that tokens
    /// end when the provider withdraws them.
    pub introspect: IntrospectedTokens,
    /// Longest time for which an answer of `introspectionUrl` counts: a withdrawn token ends after it.
    #[schemars(extend("x-range" = duration::words(&introspection::CACHE_TTL)))]
    pub introspection_cache_ttl: RawDuration,
    /// Proof of possession that tokens must have: `dpop` (RFC 9449), `certificate` (mTLS, RFC 8705), or `any`
    /// of the two. Bound tokens are verified in any case; with `none`, bearer tokens are accepted too.
    pub required_binding: TokenBinding,
    /// Fetch metadata and keys over plain HTTP too. For development: whoever is between can forge keys.
    pub insecure_allow_http: bool,
    /// Fetch metadata and keys from private and loopback addresses too, such as a provider in the cluster.
    pub jwks_allow_private_ip: bool,
    /// PEM file of certificate authorities that are trusted for the provider besides those of the system.
    pub ca_bundle_path: Option<String>,
}

impl Default for RawOidc {
    fn default() -> Self {
        Self {
            issuer: None,
            audience: None,
            resource: None,
            jwks_url: None,
            jwks_path: None,
            scopes: Vec::new(),
            required_scopes: Vec::new(),
            token_types: Vec::new(),
            subject_prefix: None,
            groups: None,
            group_prefix: None,
            allowed_groups: Vec::new(),
            claim_mapping: BTreeMap::new(),
            required_claims: BTreeMap::new(),
            clock_skew: "1m".into(),
            key_max_age: "24h".into(),
            introspection_url: None,
            client_id: None,
            client_secret: None,
            introspect: IntrospectedTokens::default(),
            introspection_cache_ttl: "1m".into(),
            required_binding: TokenBinding::default(),
            insecure_allow_http: false,
            jwks_allow_private_ip: false,
            ca_bundle_path: None,
        }
    }
}

impl RawOidc {
    pub(super) fn validate(&self, path: &str, report: &mut Report) -> Option<OidcIssuer> {
        let at = |key: &str| problems::key(path, key);
        let issuer = self.issuer.as_deref().unwrap_or_default();
        let issuer_url = if issuer.is_empty() {
            report.problem(&at("issuer"), "missing", "add the issuer's URL, as in the claim `iss`");
            None
        } else {
            self.url(issuer, &at("issuer"), report)
        };
        let audience = self.audience.clone().or_else(|| self.resource.clone()).unwrap_or_default();
        if audience.is_empty() {
            report.problem(
                &at("audience"),
                "missing: any token of the issuer would do, also one for another service",
                "add the audience that the provider puts into tokens for this server, or `resource`",
            );
        }
        let jwks_url = self.jwks_url.as_ref().map(|url| self.url(url, &at("jwksUrl"), report));
        if self.jwks_url.is_some() && self.jwks_path.is_some() {
            report.problem(&at("jwksPath"), "given beside `jwksUrl`", "keep one of the two");
        }
        if self.jwks_path.as_deref().is_some_and(|path| !Path::new(path).is_absolute()) {
            report.problem(&at("jwksPath"), "not an absolute path", "begin it with `/`");
        }
        let resource = self.resource.as_ref().map(|url| http_url::validate(url, &at("resource"), report));
        for (key, scopes) in [("scopes", &self.scopes), ("requiredScopes", &self.required_scopes)] {
            check_scopes(scopes, &at(key), report);
        }
        let key_max_age = self.key_max_age.validate(&at("keyMaxAge"), &KEY_MAX_AGE, report);
        let introspection = validate_introspection(self, path, report);
        let naming = source_naming::validate(
            [self.subject_prefix.as_ref(), self.group_prefix.as_ref()],
            self.groups,
            &self.allowed_groups,
            path,
            report,
        );
        for claim in self.claim_mapping.keys().filter(|claim| REGISTERED.contains(&claim.as_str())) {
            let path = problems::key(&at("claimMapping"), claim);
            let message = "says who the client is, or how long the token is good: it is never mapped";
            report.problem(&path, message, "map to another name, and read that in policies");
        }
        for (claim, _) in self.required_claims.iter().filter(|(_, values)| values.is_empty()) {
            let path = problems::key(&at("requiredClaims"), claim);
            report.problem(&path, "no value is accepted: no client could come in", "list accepted values");
        }
        let clock_skew = self.clock_skew.validate(&at("clockSkew"), &CLOCK_SKEW, report);
        if self.insecure_allow_http {
            report.warn(
                &at("insecureAllowHttp"),
                "keys may come over plain HTTP, where they can be forged",
                "use https outside of development",
            );
        }
        let scopes = if self.scopes.is_empty() { &self.required_scopes } else { &self.scopes };
        Some(OidcIssuer {
            issuer: issuer.to_owned(),
            // An issuer that is no URL has been reported.
            issuer_url: issuer_url?,
            audience,
            resource: resource.flatten(),
            // A URL that is none has been reported.
            jwks_url: jwks_url.flatten(),
            jwks_path: self.jwks_path.as_ref().map(PathBuf::from),
            scopes: scopes.clone(),
            required_scopes: self.required_scopes.clone(),
            token_types: self.token_types.clone(),
            naming,
            claim_mapping: self.claim_mapping.clone(),
            required_claims: self.required_claims.clone(),
            clock_skew,
            key_max_age,
            introspection,
            required_binding: self.required_binding,
            insecure_allow_http: self.insecure_allow_http,
            allow_private_addresses: self.jwks_allow_private_ip,
            ca_bundle_path: self.ca_bundle_path.as_ref().map(PathBuf::from),
        })
    }

    /// Validates a URL that is fetched.
    fn url(&self, text: &str, path: &str, report: &mut Report) -> Option<Url> {
        let url = http_url::validate(text, path, report)?;
        if url.scheme() == "http" && !self.insecure_allow_http {
            report.problem(
                path,
                "keys that come over plain HTTP can be forged",
                "use an https:// URL; for development, set `insecureAllowHttp: true`",
            );
        }
        Some(url)
    }
}

/// Reports the entries that are not scopes.
pub(super) fn check_scopes(scopes: &[String], path: &str, report: &mut Report) {
    for (index, scope) in scopes.iter().enumerate().filter(|(_, scope)| !is_scope(scope)) {
        let path = problems::item(path, index);
        let shown = report.shown(&path, scope);
        let remedy = "write one scope an entry, of printable ASCII without quotes and spaces";
        report.problem(&path, format!("{shown} is not a scope"), remedy);
    }
}

/// Returns true for a scope as RFC 6749 defines it: printable ASCII without space, `"` and `\`.
pub fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\')
}

/// Validates the settings of introspection in a block at `path`; `None` without an endpoint.
fn validate_introspection(raw: &RawOidc, path: &str, report: &mut Report) -> Option<Introspection> {
    let at = |key: &str| problems::key(path, key);
    let cache_ttl =
        raw.introspection_cache_ttl.validate(&at("introspectionCacheTtl"), &introspection::CACHE_TTL, report);
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
