//! `webhooks`: HTTP services that are asked about each call of a tool. Requests, signatures and answers are
//! those of ToolHive's webhooks, so that one written for ToolHive works unchanged.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::authz::RawAuthz;
use super::service_url;
use super::tool_filter::ToolFilter;
use crate::problems::{self, Report};
use crate::sections::aggregation;
use crate::values::duration::{self, RawDuration};
use crate::values::secret::{self, Secret};

/// Path of the section.
const PATH: &str = "webhooks";
/// Range of `timeout`, 10 ms to 30 s: a call waits for each of its webhooks.
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(30);
/// Most webhooks of one kind: each call is compared to all of them.
pub const MAX_WEBHOOKS: usize = 256;
/// Most characters of a name: a resource's name of 253, a name of 63 as ToolHive has it, and the words of
/// the operator between and behind them.
const MAX_NAME_CHARS: usize = 330;
/// Fewest characters of `hmacSecret` without a warning.
const MIN_SECRET_CHARS: usize = 16;
/// Entry of `claims` that stands for all claims.
const ALL_CLAIMS: &str = "*";

/// The services that are asked about calls of tools, in the order in which they are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Webhooks {
    /// May change the arguments of a call.
    pub mutating: Vec<Arc<Webhook>>,
    /// May deny a call.
    pub validating: Vec<Arc<Webhook>>,
    /// May replace or withhold the result of a call.
    pub post: Vec<Arc<Webhook>>,
}

/// A service that is asked about calls of tools. Two that are equal are asked alike.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Webhook {
    /// Name in metrics, logs, audit events and errors; unique within its kind.
    pub name: Arc<str>,
    /// URL that questions are posted to.
    pub url: Url,
    /// Time limit of one question with its answer.
    pub timeout: Duration,
    /// Effect of a missing answer.
    pub failure_policy: WebhookFailurePolicy,
    /// Key of the HMAC-SHA256 over each question.
    pub hmac_secret: Option<Secret>,
    /// Claims that the service receives.
    pub claims: SentClaims,
    /// True if a client reads the message of a denial.
    pub tell_reason: bool,
    /// True if the service receives the backend's own names of tools in place of the listed ones.
    pub original_names: bool,
    /// The tools that the service is asked about.
    filter: ToolFilter,
    /// True if questions may go out without TLS.
    pub insecure_allow_http: bool,
    /// True if the service may have a private or loopback address.
    pub allow_private_addresses: bool,
    /// PEM file of certificate authorities that are trusted besides those of the system.
    pub ca_bundle_path: Option<PathBuf>,
    /// PEM files of the certificate that vmcp presents, and its key.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// True if the certificate of the service is not verified.
    pub insecure_skip_verify: bool,
    /// Claims that may hold the client's groups, in the order in which they are looked for.
    pub group_claims: Vec<String>,
    /// Claim that holds the client's roles, which count as groups.
    pub role_claim: Option<String>,
}

/// Claims of the client that a service receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SentClaims {
    /// All claims of the client's token.
    All,
    /// The claims of these names.
    Named(Vec<String>),
}

/// Effect of a missing answer of a webhook.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WebhookFailurePolicy {
    /// The call is denied; the result is withheld.
    #[default]
    #[serde(alias = "Fail")]
    Fail,
    /// The call goes on, as without the webhook.
    #[serde(alias = "Ignore")]
    Ignore,
}

/// HTTP services that are asked about each call of a backend's tool, however it is made. Their protocol is
/// that of ToolHive's webhooks. At most 256 of each kind.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Webhooks")]
pub struct RawWebhooks {
    /// Asked first, each about the arguments that the one before has left. They may change the arguments, by
    /// a JSON Patch, or deny the call. Changed arguments must fit the tool's schema, and the policies judge
    /// them.
    pub mutating: Vec<RawWebhook>,
    /// Asked about the arguments that will be sent. They may deny the call.
    pub validating: Vec<RawWebhook>,
    /// Asked when the tool has answered. They may replace the result, by a JSON Patch, or withhold it.
    pub post: Vec<RawWebhook>,
}

/// An HTTP service that is asked about calls of tools.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Webhook")]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct RawWebhook {
    /// Required. Name in metrics, logs, audit events and errors: at most 330 letters, digits, `-`, `_`, `.`
    /// and `/`, unique within its kind.
    pub name: String,
    /// Required. URL that questions are posted to, as JSON. Redirects are not followed.
    pub url: Option<String>,
    /// Time limit of one question, the wait for one of 64 places included.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub timeout: RawDuration,
    /// Effect of a missing answer: a time-out, a status other than 200 and 422, an answer that cannot be read
    /// or applied. `fail`: the call is denied, the result withheld. `ignore`: it goes on. Both are logged and
    /// counted.
    pub failure_policy: WebhookFailurePolicy,
    /// Key that signs each question: `X-ToolHive-Signature` is the HMAC-SHA256 of `X-ToolHive-Timestamp`, a
    /// dot and the body. Write `${file:/path}` or `${secret:NAME}`.
    pub hmac_secret: Option<Secret>,
    /// Listed names of the tools that the service is asked about; `*` stands for any characters. With
    /// `backends`, also the names that the backends themselves use. Default: all tools.
    pub tools: Vec<String>,
    /// Backends whose tools the service is asked about. Default: all.
    pub backends: Vec<String>,
    /// Send the backend's own name of a tool in place of the listed one.
    pub original_names: bool,
    /// Claims of the client that the service receives, by name; `*`: all. Default: none; it receives subject
    /// and groups.
    pub claims: Vec<String>,
    /// Tell the client the `message` of a denial. Without it the message is in the log and in the audit
    /// event.
    pub tell_reason: bool,
    /// Allow an http `url`, such as that of a sidecar: an attacker on the way can forge answers.
    pub insecure_allow_http: bool,
    /// Ask a service at a private or loopback address too, such as one in the cluster.
    pub allow_private_ip: bool,
    /// PEM file of certificate authorities that are trusted for the service besides those of the system.
    pub ca_bundle_path: Option<String>,
    /// PEM file of the certificate that vmcp presents to the service. Needs `clientKeyPath`.
    pub client_cert_path: Option<String>,
    /// PEM file of the key of that certificate.
    pub client_key_path: Option<String>,
    /// Accept any certificate of the service. For development: an attacker on the way can forge answers.
    pub insecure_skip_verify: bool,
}

impl Default for RawWebhook {
    fn default() -> Self {
        Self {
            name: String::new(),
            url: None,
            timeout: "10s".into(),
            failure_policy: WebhookFailurePolicy::Fail,
            hmac_secret: None,
            tools: Vec::new(),
            backends: Vec::new(),
            original_names: false,
            claims: Vec::new(),
            tell_reason: false,
            insecure_allow_http: false,
            allow_private_ip: false,
            ca_bundle_path: None,
            client_cert_path: None,
            client_key_path: None,
            insecure_skip_verify: false,
        }
    }
}

impl Webhooks {
    /// True if no call is asked about.
    pub fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty() && self.post.is_empty()
    }
}

impl Webhook {
    /// Returns true if the service is asked about a tool: `name` is the listed name, `own_name` the
    /// backend's.
    pub fn means(&self, backend: &str, name: &str, own_name: &str) -> bool {
        self.filter.means(backend, name, own_name)
    }
}

impl RawWebhooks {
    /// `authz`: the section that says where groups are; `backends`: names of the configured backends.
    pub(crate) fn validate(
        &self,
        authz: &RawAuthz,
        backends: &BTreeSet<&str>,
        report: &mut Report,
    ) -> Webhooks {
        let mut kind = |kind: &str, raw: &[RawWebhook]| {
            let path = problems::key(PATH, kind);
            if raw.len() > MAX_WEBHOOKS {
                let message =
                    format!("{} webhooks, and each call is compared to at most {MAX_WEBHOOKS}", raw.len());
                report.problem(
                    &path,
                    message,
                    "let one webhook mean several tools, by `tools` and `backends`",
                );
            }
            let mut names = BTreeSet::new();
            let mut valid = Vec::new();
            for (index, webhook) in raw.iter().enumerate() {
                let path = problems::item(&path, index);
                if !webhook.name.is_empty() && !names.insert(webhook.name.as_str()) {
                    let message = format!("`{}` is the name of another webhook of this kind", webhook.name);
                    report.problem(&problems::key(&path, "name"), message, "choose another name");
                }
                valid.extend(webhook.validate(&path, authz, backends, report).map(Arc::new));
            }
            valid
        };
        Webhooks {
            mutating: kind("mutating", &self.mutating),
            validating: kind("validating", &self.validating),
            post: kind("post", &self.post),
        }
    }
}

impl RawWebhook {
    fn validate(
        &self,
        path: &str,
        authz: &RawAuthz,
        backends: &BTreeSet<&str>,
        report: &mut Report,
    ) -> Option<Webhook> {
        let at = |key: &str| problems::key(path, key);
        let is_named = |char: char| char.is_ascii_alphanumeric() || "-_./".contains(char);
        if self.name.is_empty() {
            report.problem(&at("name"), "missing", "add a name, by which logs and errors tell the webhook");
        } else if self.name.len() > MAX_NAME_CHARS || !self.name.chars().all(is_named) {
            let message = "is no name: at most 330 letters, digits, `-`, `_`, `.` and `/`";
            report.problem(&at("name"), message, "shorten it, or replace the other characters by `-`");
        }
        let about = ("https://guard.example/ask", "answers");
        let allow_http = self.insecure_allow_http;
        let url = service_url::validate(self.url.as_deref(), &at("url"), about, allow_http, report);
        self.check_secret(&at("hmacSecret"), report);
        for (index, name) in self.backends.iter().enumerate() {
            aggregation::check_backend(name, &problems::item(&at("backends"), index), backends, report);
        }
        if self.failure_policy == WebhookFailurePolicy::Ignore {
            report.warn(
                &at("failurePolicy"),
                "calls go on while the webhook does not answer",
                "write `fail` unless the policies alone are enough protection",
            );
        }
        if self.insecure_skip_verify {
            report.warn(
                &at("insecureSkipVerify"),
                "any certificate of the webhook is accepted, so that its answers can be forged",
                "name its authority in `caBundlePath`",
            );
        }
        if self.client_cert_path.is_some() != self.client_key_path.is_some() {
            let (missing, given) = if self.client_key_path.is_some() {
                ("clientCertPath", "clientKeyPath")
            } else {
                ("clientKeyPath", "clientCertPath")
            };
            report.problem(&at(missing), format!("missing beside `{given}`"), "name both files, or neither");
        }
        let timeout = self.timeout.validate(&at("timeout"), &TIMEOUT, report);
        let has_all = self.claims.iter().any(|claim| claim == ALL_CLAIMS);
        Some(Webhook {
            name: self.name.as_str().into(),
            // An invalid URL has been reported.
            url: url?,
            timeout,
            failure_policy: self.failure_policy,
            hmac_secret: self.hmac_secret.clone(),
            claims: if has_all { SentClaims::All } else { SentClaims::Named(self.claims.clone()) },
            tell_reason: self.tell_reason,
            original_names: self.original_names,
            filter: ToolFilter::new(&self.tools, &self.backends),
            insecure_allow_http: self.insecure_allow_http,
            allow_private_addresses: self.allow_private_ip,
            ca_bundle_path: self.ca_bundle_path.as_ref().map(PathBuf::from),
            client_certificate: self
                .client_cert_path
                .as_ref()
                .zip(self.client_key_path.as_ref())
                .map(|(certificate, key)| (PathBuf::from(certificate), PathBuf::from(key))),
            insecure_skip_verify: self.insecure_skip_verify,
            group_claims: authz.group_claims(),
            role_claim: authz.role_claim(),
        })
    }

    /// A weak key is a warning: the key of a webhook that ToolHive asks too may be short.
    fn check_secret(&self, path: &str, report: &mut Report) {
        let Some(secret) = &self.hmac_secret else { return };
        let remedy = "make one by `openssl rand -base64 32`";
        if secret.expose().is_empty() {
            report.problem(path, "is empty: questions would not be signed", remedy);
        } else if secret.expose().chars().count() < MIN_SECRET_CHARS {
            report.warn(path, "shorter than 16 characters: it can be guessed", remedy);
        } else if let Some(weakness) = secret::weakness(secret) {
            report.warn(path, weakness, remedy);
        }
    }
}

#[cfg(test)]
mod tests;
