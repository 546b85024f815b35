//! `incomingAuth.decisionPoint`: an HTTP service that decides about calls, after the policies.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::authz::RawAuthz;
use super::service_url;
use crate::problems::{self, Report};
use crate::values::duration::{self, RawDuration};
use crate::values::secret::{self, Secret};

/// Path of the section.
const PATH: &str = "incomingAuth.decisionPoint";
/// Range of `timeout`, 10 ms to 30 s: a call waits for the decision.
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(30);
/// Range of `cacheFor`, up to 10 min: a right that is withdrawn stays for so long.
const CACHE_FOR: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_mins(10);
/// Fewest characters of `hmacSecret`.
const MIN_SECRET_CHARS: usize = 16;

/// A service that decides about calls. Two that are equal are asked alike.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct DecisionPoint {
    /// URL that questions are posted to.
    pub url: Url,
    /// Time limit of one question with its answer, the wait for a free place included.
    pub timeout: Duration,
    /// Effect of a missing answer.
    pub on_failure: OnDecisionFailure,
    /// Sent as `Authorization: Bearer`.
    pub bearer_token: Option<Secret>,
    /// Key of the HMAC-SHA256 over each question.
    pub hmac_secret: Option<Secret>,
    /// Claims that the service receives.
    pub claims: Vec<String>,
    /// True if the service receives the arguments of calls.
    pub include_arguments: bool,
    /// True if a client reads the reason of a denial.
    pub tell_reason: bool,
    /// Time for which an answer to the same question counts; zero: each question is asked.
    pub cache_for: Duration,
    /// Questions under way at once.
    pub max_concurrent: u32,
    /// True if questions may go out without TLS.
    pub insecure_allow_http: bool,
    /// True if the service may have a private or loopback address.
    pub allow_private_addresses: bool,
    /// PEM file of certificate authorities that are trusted besides those of the system.
    pub ca_bundle_path: Option<PathBuf>,
    /// Claims that may hold the client's groups, in the order in which they are looked for.
    pub group_claims: Vec<String>,
    /// Claim that holds the client's roles, which count as groups.
    pub role_claim: Option<String>,
}

/// Effect of a missing answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnDecisionFailure {
    /// The call is denied.
    #[default]
    Deny,
    /// The call goes on, as without a decision point.
    Allow,
}

/// An HTTP service that is asked about each call that the policies permit; both must allow it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "DecisionPoint")]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct RawDecisionPoint {
    /// Required. URL that questions are posted to, as JSON. Redirects are not followed.
    pub url: Option<String>,
    /// Time limit of one question, the wait for a free place of `maxConcurrent` included.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub timeout: RawDuration,
    /// Effect of a missing answer: a time-out, a status other than 200, a body without a decision. `deny`:
    /// the call is denied. `allow`: it goes on. Both are logged and counted.
    pub on_failure: OnDecisionFailure,
    /// Token for the service, sent as `Authorization: Bearer`; write `${file:/path}` or `${secret:NAME}`.
    pub bearer_token: Option<Secret>,
    /// Key of at least 16 characters that signs each question: `Vmcp-Signature` is the HMAC-SHA256 of
    /// `Vmcp-Timestamp`, a dot and the body.
    pub hmac_secret: Option<Secret>,
    /// Claims of the client that the service receives, by name. Default: none; it receives issuer, subject
    /// and groups.
    pub claims: Vec<String>,
    /// Send the arguments of calls too. They may hold personal data.
    pub include_arguments: bool,
    /// Tell the client the `reason` of a denial. Without it the reason is in the log and in the audit event.
    pub tell_reason: bool,
    /// Time for which an answer counts for the same question again. `0`: each call is asked about.
    #[schemars(extend("x-range" = duration::words(&CACHE_FOR)))]
    pub cache_for: RawDuration,
    /// Questions under way at once, 1 to 1000; others wait, up to `timeout`.
    #[schemars(range(min = 1, max = 1000))]
    pub max_concurrent: u32,
    /// Allow an http `url`, such as that of a sidecar: an attacker on the way can forge decisions.
    pub insecure_allow_http: bool,
    /// Ask a service at a private or loopback address too, such as one in the cluster.
    pub allow_private_ip: bool,
    /// PEM file of certificate authorities that are trusted for the service besides those of the system.
    pub ca_bundle_path: Option<String>,
}

impl Default for RawDecisionPoint {
    fn default() -> Self {
        Self {
            url: None,
            timeout: "2s".into(),
            on_failure: OnDecisionFailure::Deny,
            bearer_token: None,
            hmac_secret: None,
            claims: Vec::new(),
            include_arguments: false,
            tell_reason: false,
            cache_for: "5s".into(),
            max_concurrent: 32,
            insecure_allow_http: false,
            allow_private_ip: false,
            ca_bundle_path: None,
        }
    }
}

impl RawDecisionPoint {
    /// `authz`: the section that says where groups are.
    pub(crate) fn validate(&self, authz: &RawAuthz, report: &mut Report) -> Option<DecisionPoint> {
        let at = |key: &str| problems::key(PATH, key);
        let about = ("https://pdp.example/decide", "decisions");
        let allow_http = self.insecure_allow_http;
        let url = service_url::validate(self.url.as_deref(), &at("url"), about, allow_http, report);
        let remedy = "make one by `openssl rand -base64 32`";
        if let Some(secret) = &self.hmac_secret {
            if secret.expose().chars().count() < MIN_SECRET_CHARS {
                report.problem(&at("hmacSecret"), "shorter than 16 characters", remedy);
            } else if let Some(weakness) = secret::weakness(secret) {
                report.problem(&at("hmacSecret"), weakness, remedy);
            }
        }
        let is_header = |secret: &Secret| secret.expose().bytes().all(|byte| byte.is_ascii_graphic());
        if self.bearer_token.as_ref().is_some_and(|secret| secret.expose().is_empty() || !is_header(secret)) {
            let message = "is empty, or has characters that no HTTP header carries";
            report.problem(&at("bearerToken"), message, "use printable ASCII without spaces");
        }
        let timeout = self.timeout.validate(&at("timeout"), &TIMEOUT, report);
        let cache_for = self.cache_for.validate(&at("cacheFor"), &CACHE_FOR, report);
        if self.on_failure == OnDecisionFailure::Allow {
            report.warn(
                &at("onFailure"),
                "calls go on while the decision point does not answer",
                "write `deny` unless policies alone are enough protection",
            );
        }
        Some(DecisionPoint {
            // An invalid URL has been reported.
            url: url?,
            timeout,
            on_failure: self.on_failure,
            bearer_token: self.bearer_token.clone(),
            hmac_secret: self.hmac_secret.clone(),
            claims: self.claims.clone(),
            include_arguments: self.include_arguments,
            tell_reason: self.tell_reason,
            cache_for,
            max_concurrent: self.max_concurrent,
            insecure_allow_http: self.insecure_allow_http,
            allow_private_addresses: self.allow_private_ip,
            ca_bundle_path: self.ca_bundle_path.as_ref().map(PathBuf::from),
            group_claims: authz.group_claims(),
            role_claim: authz.role_claim(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Loaded, Problems, load};

    fn with(block: &str) -> Result<Loaded, Problems> {
        load(&format!("incomingAuth: {{ decisionPoint: {block} }}\n"), "vmcp.yaml", &|_| None)
    }

    #[test]
    fn a_decision_point_denies_without_an_answer_and_is_told_little() {
        let config = with("{ url: 'https://pdp.example/decide' }").unwrap().config;
        let point = config.decision_point.as_deref().unwrap();
        assert_eq!(point.on_failure, OnDecisionFailure::Deny);
        assert_eq!((point.timeout, point.cache_for), (Duration::from_secs(2), Duration::from_secs(5)));
        assert!(point.claims.is_empty() && !point.include_arguments && !point.tell_reason);
        assert_eq!(point.group_claims, ["groups", "roles", "cognito:groups"]);
    }

    #[test]
    fn mistakes_name_the_field() {
        for (block, message) in [
            ("{}", "decisionPoint.url: missing"),
            ("{ url: 'http://pdp.example/' }", "can be forged"),
            ("{ url: 'https://a:b@pdp.example/' }", "must not carry credentials"),
            ("{ url: 'https://p/', timeout: 31s }", "is not between 10ms and 30s"),
            ("{ url: 'https://p/', cacheFor: 11m }", "is not between 0s and 10m"),
            ("{ url: 'https://p/', maxConcurrent: 0 }", "`0` is out of range"),
            ("{ url: 'https://p/', hmacSecret: short }", "shorter than 16 characters"),
            ("{ url: 'https://p/', hmacSecret: aaaaaaaaaaaaaaaaaaaa }", "fewer than 8 different"),
            ("{ url: 'https://p/', bearerToken: 'a b' }", "no HTTP header carries"),
            ("{ url: 'https://p/', onFailure: ask }", "onFailure"),
        ] {
            let problems = with(block).unwrap_err().to_string();
            assert!(problems.contains(message), "{block}: {problems}");
        }
        let loaded =
            with("{ url: 'http://127.0.0.1:1/', insecureAllowHttp: true, onFailure: allow }").unwrap();
        assert!(format!("{:?}", loaded.warnings).contains("calls go on"), "{:?}", loaded.warnings);
    }

    #[test]
    fn secrets_of_a_decision_point_are_masked() {
        let block = "{ url: 'https://p/', bearerToken: s3cret-token, hmacSecret: 0123456789abcdefghij }";
        let config = with(block).unwrap().config;
        for shown in [format!("{config:?}"), config.effective_yaml().to_owned()] {
            assert!(!shown.contains("s3cret-token") && !shown.contains("0123456789abcdefghij"), "{shown}");
        }
    }
}
