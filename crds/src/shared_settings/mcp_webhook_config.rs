//! MCPWebhookConfig: HTTP services that are asked about calls of tools, for many servers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use vmcp_config::WebhookFailurePolicy;

use crate::fields::cel_rules::rules;
use crate::fields::references::SecretKeyReference;
use crate::problem::Problem;

/// Names of webhooks. Without `/`, which joins them to the name of their resource, so that two webhooks never
/// share a name.
const NAME_PATTERN: &str = "^[A-Za-z0-9._-]+$";
/// Most characters of such a name, as ToolHive has it.
const MAX_NAME_CHARS: usize = 63;
/// Most tools of a webhook, and most characters of each.
const MAX_TOOLS: usize = 256;

/// HTTP services that are asked about calls of the tools of MCPServers, or of a whole VirtualMCPServer, whose
/// `webhookConfigRef` names it.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "toolhive.stacklok.com",
    version = "v1alpha1",
    kind = "MCPWebhookConfig",
    plural = "mcpwebhookconfigs",
    namespaced,
    schema = "disabled",
    status = "MCPWebhookConfigStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "mwc",
    category = "mcp",
    printcolumn(
        name = "Valid",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Valid")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "(has(self.validating) ? size(self.validating) : 0) + (has(self.mutating) ? size(self.mutating) : 0) + (has(self.post) ? size(self.post) : 0) > 0",
    "at least one webhook must be defined: validating, mutating or post",
)])))]
pub struct MCPWebhookConfigSpec {
    /// Asked first. They may change the arguments of a call, by a JSON Patch, or deny it. At most 32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub mutating: Vec<Webhook>,
    /// Asked about the arguments that will be sent. They may deny the call. At most 32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub validating: Vec<Webhook>,
    /// Asked about the answer of the tool. They may replace it, by a JSON Patch, or withhold it. At most 32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub post: Vec<Webhook>,
}

/// An HTTP service that is asked about calls of tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// Name in metrics, logs and errors, behind the name of this resource: at most 63 letters, digits, `-`,
    /// `_` and `.`; unique within its kind.
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// URL that questions are posted to, as JSON. Redirects are not followed.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// Time limit of one question, 10ms to 30s. Default: `10s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub timeout: Option<String>,
    /// Effect of a missing answer: `fail` denies the call, `ignore` lets it go on. Default: `fail`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<WebhookFailurePolicy>,
    /// TLS of the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_config: Option<WebhookTls>,
    /// Secret key that holds the key of the HMAC in `X-ToolHive-Signature`. Without it, questions are not
    /// signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hmac_secret_ref: Option<SecretKeyReference>,
    /// Names of the tools that the service is asked about; `*` stands for any characters. Default: all. At
    /// most 256, of 1 to 256 characters each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 256)))]
    pub tools: Vec<String>,
    /// Claims of the client's token that the service receives, by name; `*`: all, as ToolHive sends them.
    /// Default: none; the service receives subject and groups. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 256)))]
    pub claims: Vec<String>,
    /// Tells the client the `message` of a denial.
    #[serde(default)]
    pub tell_reason: bool,
    /// Asks a service at a private address too. The names of Services, `NAME.NAMESPACE.svc`, need no
    /// permission.
    #[serde(default, rename = "allowPrivateIP")]
    pub allow_private_ip: bool,
}

/// TLS of the connection to a webhook.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct WebhookTls {
    /// Secret key that holds certificates of authorities, as PEM, that are trusted besides those of the
    /// system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<SecretKeyReference>,
    /// Secret key that holds the certificate, as PEM, that the server presents. Needs `clientKeySecretRef`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cert_secret_ref: Option<SecretKeyReference>,
    /// Secret key that holds the key of that certificate, as PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_key_secret_ref: Option<SecretKeyReference>,
    /// Accepts any certificate, and an http URL. For development: an attacker in the network can forge
    /// answers.
    pub insecure_skip_verify: bool,
}

impl MCPWebhookConfigSpec {
    /// Returns the webhooks of each kind, with the name of the kind.
    pub fn kinds(&self) -> [(&'static str, &[Webhook]); 3] {
        [("mutating", &self.mutating), ("validating", &self.validating), ("post", &self.post)]
    }

    /// Returns the Secrets that the settings refer to.
    pub fn secret_references(&self) -> Vec<SecretKeyReference> {
        let webhooks = self.kinds().into_iter().flat_map(|(_, webhooks)| webhooks);
        let of_webhook = |webhook: &Webhook| {
            let tls = webhook.tls_config.clone().unwrap_or_default();
            [
                webhook.hmac_secret_ref.clone(),
                tls.ca_secret_ref,
                tls.client_cert_secret_ref,
                tls.client_key_secret_ref,
            ]
        };
        webhooks.flat_map(of_webhook).flatten().collect()
    }

    /// Returns the mistakes that only this resource can name; lowering finds the others.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (kind, webhooks) in self.kinds() {
            for (index, webhook) in webhooks.iter().enumerate() {
                webhook.check(&format!("spec.{kind}[{index}]"), &mut problems);
            }
        }
        problems
    }

    /// Returns a hash that changes with the settings: the first 8 bytes of a SHA-256, in hex.
    pub fn hash(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        let mut hash = hex::encode(Sha256::digest(text));
        hash.truncate(16);
        hash
    }
}

impl Webhook {
    fn check(&self, path: &str, problems: &mut Vec<Problem>) {
        let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
        if self.name.is_empty() || self.name.len() > MAX_NAME_CHARS || !self.name.chars().all(is_plain) {
            let message = "is no name: 1 to 63 letters, digits, `-`, `_` and `.`";
            let remedy = "shorten it, or replace the other characters by `-`";
            problems.push(Problem::new(format!("{path}.name"), message, remedy));
        }
        let is_tool = |tool: &String| (1..=MAX_TOOLS).contains(&tool.chars().count());
        if self.tools.len() > MAX_TOOLS || !self.tools.iter().all(is_tool) {
            let message =
                format!("has more than {MAX_TOOLS} names, or one without 1 to {MAX_TOOLS} characters");
            let remedy = "name several tools by one pattern with `*`, and remove empty names";
            problems.push(Problem::new(format!("{path}.tools"), message, remedy));
        }
        let tls = self.tls_config.clone().unwrap_or_default();
        let is_http = self.url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http:"));
        if is_http && !tls.insecure_skip_verify {
            let message = "answers that come over plain HTTP can be forged";
            let remedy = "use an https:// URL; for development, set `tlsConfig.insecureSkipVerify: true`";
            problems.push(Problem::new(format!("{path}.url"), message, remedy));
        }
        if tls.client_cert_secret_ref.is_some() != tls.client_key_secret_ref.is_some() {
            let message = "a client certificate takes both `clientCertSecretRef` and `clientKeySecretRef`";
            problems.push(Problem::new(
                format!("{path}.tlsConfig"),
                message,
                "name both Secrets, or neither",
            ));
        }
    }
}

/// Observed state of an MCPWebhookConfig.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPWebhookConfigStatus {
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Hash of the settings, by which a change is noticed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
    /// MCPServers and VirtualMCPServers that refer to it, as `KIND/NAME`. At most 256.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub referenced_by: Vec<String>,
    /// Conditions of the settings; `Valid` says what is wrong.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
