//! `incomingAuth.decisionPoint`: an HTTP service that decides about calls, with its secrets in Secrets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vmcp_config::OnDecisionFailure;

use crate::fields::references::{CaBundleReference, SecretKeyReference};

/// An HTTP service that is asked about each call that the policies permit; both must allow it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct DecisionPoint {
    /// URL that questions are posted to, as JSON. Redirects are not followed.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// Time limit of one question, 10ms to 30s, the wait for a free place of `maxConcurrent` included.
    /// Default: `2s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub timeout: Option<String>,
    /// Effect of a missing answer. Default: `deny`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnDecisionFailure>,
    /// Secret key that holds the token for the service, sent as `Authorization: Bearer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_token_secret_ref: Option<SecretKeyReference>,
    /// Secret key that holds the key, of at least 16 characters, that signs each question: `Vmcp-Signature`
    /// is the HMAC-SHA256 of `Vmcp-Timestamp`, a dot and the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hmac_secret_ref: Option<SecretKeyReference>,
    /// Claims of the client that the service receives, by name. Default: none; it receives issuer, subject
    /// and groups. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub claims: Vec<String>,
    /// Sends the arguments of calls too. They may hold personal data.
    #[serde(default)]
    pub include_arguments: bool,
    /// Tells the client the `reason` of a denial.
    #[serde(default)]
    pub tell_reason: bool,
    /// Time, up to 10m, for which an answer counts for the same question again; `0s`: each call is asked
    /// about. Default: `5s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub cache_for: Option<String>,
    /// Questions under way at once; others wait, up to `timeout`. Default: 32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_concurrent: Option<u32>,
    /// Allows an http `url`: an attacker in the network can forge decisions.
    #[serde(default, rename = "insecureAllowHTTP")]
    pub insecure_allow_http: bool,
    /// Asks a service at a private address too, such as one in the cluster.
    #[serde(default, rename = "allowPrivateIP")]
    pub allow_private_ip: bool,
    /// Certificate authorities that are trusted for the service besides those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle_ref: Option<CaBundleReference>,
}

impl DecisionPoint {
    /// Returns the Secrets that the settings refer to.
    pub fn secret_references(&self) -> impl Iterator<Item = &SecretKeyReference> {
        self.bearer_token_secret_ref.iter().chain(&self.hmac_secret_ref)
    }
}
