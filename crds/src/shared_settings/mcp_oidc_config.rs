//! MCPOIDCConfig: an identity provider, for many servers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vmcp_config::IntrospectedTokens;

use crate::fields::cel_rules::rules;
use crate::fields::references::{CaBundleReference, SecretKeyReference};

/// An identity provider whose tokens VirtualMCPServers accept that name it in `incomingAuth.oidcConfigRef`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "toolhive.stacklok.com",
    version = "v1alpha1",
    kind = "MCPOIDCConfig",
    plural = "mcpoidcconfigs",
    namespaced,
    schema = "disabled",
    status = "MCPOIDCConfigStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "mcpoidc",
    category = "mcp",
    printcolumn(name = "Issuer", type_ = "string", json_path = ".spec.inline.issuer"),
    printcolumn(
        name = "Valid",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Valid")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "self.type == 'inline' ? has(self.inline) : !has(self.inline)",
    "inline goes with type: inline, and only with it",
), (
    "self.type == 'kubernetesServiceAccount' ? has(self.kubernetesServiceAccount) : !has(self.kubernetesServiceAccount)",
    "kubernetesServiceAccount goes with type: kubernetesServiceAccount, and only with it; {} is enough",
)])))]
pub struct MCPOIDCConfigSpec {
    /// Source of the settings.
    #[serde(rename = "type")]
    pub kind: OidcConfigType,
    /// Settings of `type: inline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<InlineOidcConfig>,
    /// Settings of `type: kubernetesServiceAccount`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes_service_account: Option<KubernetesServiceAccount>,
}

/// Sources of the settings of an identity provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OidcConfigType {
    /// Written here.
    #[default]
    Inline,
    /// Tokens of the cluster's ServiceAccounts.
    KubernetesServiceAccount,
}

/// Tokens of the cluster's ServiceAccounts, such as those of projected volumes. Policies see the claims
/// `namespace` and `serviceAccount`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "!has(self.jwksUrl) || (has(self.useClusterAuth) && !self.useClusterAuth) || self.jwksUrl.endsWith('/openid/v1/jwks')",
    "the keys are those of the API server; remove jwksUrl, or set useClusterAuth: false for keys of another server",
)])))]
pub struct KubernetesServiceAccount {
    /// ServiceAccount whose tokens are accepted. Default: every ServiceAccount.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account: Option<String>,
    /// Namespace of the ServiceAccounts whose tokens are accepted. Default: with `serviceAccount`, that of
    /// the server; without it, every namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// Issuer, exactly as in the claim `iss`. Default: the cluster's, as its API server names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub issuer: Option<String>,
    /// URL of the key set (JWKS) with `useClusterAuth: false`. Default: read from the issuer's metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub jwks_url: Option<String>,
    /// `true`: the operator asks the API server for the keys, and hands them to the pods, which hold no
    /// token. `false`: pods fetch the keys from the issuer, which must serve them without credentials.
    /// Default: `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_cluster_auth: Option<bool>,
}

impl KubernetesServiceAccount {
    /// Returns true if the API server gives the keys to the operator.
    pub fn takes_cluster_keys(&self) -> bool {
        self.use_cluster_auth.unwrap_or(true)
    }

    /// Returns the field of a restriction that is given without a value. To follow it as an absent one would
    /// let every ServiceAccount in.
    pub(crate) fn empty_restriction(&self) -> Option<&'static str> {
        let given = [("serviceAccount", &self.service_account), ("namespace", &self.namespace)];
        given.into_iter().find_map(|(field, value)| (value.as_deref() == Some("")).then_some(field))
    }
}

/// Settings of an identity provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InlineOidcConfig {
    /// Issuer, exactly as in the claim `iss`. Metadata is read from its `/.well-known/openid-configuration`.
    #[schemars(length(min = 1, max = 2048))]
    pub issuer: String,
    /// URL of the key set (JWKS). Default: read from the provider's metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub jwks_url: Option<String>,
    /// Time for which keys stay in use while the provider cannot be reached, such as `24h`; then its tokens
    /// are refused until it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub key_max_age: Option<String>,
    /// URL of the introspection endpoint (RFC 7662), which says whether an opaque token is good. Needs
    /// `clientId` and `clientSecretRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub introspection_url: Option<String>,
    /// Client identifier of the server at `introspectionUrl`; unused where keys verify all tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub client_id: Option<String>,
    /// Secret of that client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret_ref: Option<SecretKeyReference>,
    /// Tokens that `introspectionUrl` is asked about. Default: `opaque`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub introspect: Option<IntrospectedTokens>,
    /// Longest time for which an answer of `introspectionUrl` counts, such as `1m`: a withdrawn token ends
    /// after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub introspection_cache_ttl: Option<String>,
    /// Fetches metadata and keys over plain HTTP too. For development: an attacker in the
    /// network can forge keys.
    #[serde(default, rename = "insecureAllowHTTP")]
    pub insecure_allow_http: bool,
    /// Fetches metadata and keys from private addresses too, such as a provider in the cluster.
    #[serde(default, rename = "jwksAllowPrivateIP")]
    pub jwks_allow_private_ip: bool,
    /// Certificate authorities that are trusted for the provider besides those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle_ref: Option<CaBundleReference>,
}

impl MCPOIDCConfigSpec {
    /// Returns true if the operator has to ask the API server for issuer and keys.
    pub fn takes_cluster_keys(&self) -> bool {
        self.kubernetes_service_account.as_ref().is_some_and(KubernetesServiceAccount::takes_cluster_keys)
    }

    /// Returns the Secret that the settings refer to.
    pub fn secret_reference(&self) -> Option<&SecretKeyReference> {
        self.inline.as_ref()?.client_secret_ref.as_ref()
    }
}

/// Observed state of an MCPOIDCConfig.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPOIDCConfigStatus {
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the configuration; `Valid` says what is wrong.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
