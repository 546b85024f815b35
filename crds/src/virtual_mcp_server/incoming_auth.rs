//! Authentication of clients.

mod decision_point;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::decision_point::DecisionPoint;
use crate::fields::cel_rules::rules;
use crate::fields::references::SecretKeyReference;
use crate::fields::yaml_block::Block;

/// Authentication of clients.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "self.type == 'oidc' ? has(self.oidcConfigRef) : !has(self.oidcConfigRef)",
        "oidcConfigRef goes with type: oidc, and only with it",
    ),
    (
        "self.type == 'apiKeys' ? has(self.apiKeys) : (self.type == 'oidc' || !has(self.apiKeys))",
        "type: apiKeys needs apiKeys; type: anonymous has no use for them",
    ),
])))]
pub struct IncomingAuth {
    /// Credentials that a client must present. `oidc` takes keys of `apiKeys` as well, if there are any.
    #[serde(rename = "type")]
    pub kind: IncomingAuthType,
    /// MCPOIDCConfig of the identity provider whose tokens are accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc_config_ref: Option<OidcConfigReference>,
    /// Keys that clients send as bearer tokens or in `X-API-Key`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub api_keys: Vec<ApiKey>,
    /// HTTP service that is asked about each call that the policies permit; both must allow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_point: Option<DecisionPoint>,
}

impl IncomingAuth {
    /// Reads the block of a resource; `None` if it is of another form, which the validator of `vmcp.yaml`
    /// reports.
    pub fn from_block(block: &Block) -> Option<IncomingAuth> {
        serde_json::from_value(block.clone().into()).ok()
    }

    /// Returns the Secrets that keys of clients and the decision point refer to.
    pub fn secret_references(&self) -> Vec<SecretKeyReference> {
        let keys = self.api_keys.iter().map(|key| &key.secret_key_ref);
        let decisions = self.decision_point.iter().flat_map(DecisionPoint::secret_references);
        keys.chain(decisions).cloned().collect()
    }
}

/// Kinds of authentication.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum IncomingAuthType {
    /// No authentication: every client that reaches the port may call.
    #[default]
    Anonymous,
    /// Access tokens of an identity provider.
    Oidc,
    /// Keys from Secrets.
    ApiKeys,
}

/// An MCPOIDCConfig of the same namespace, and the tokens of it that are for this server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OidcConfigReference {
    /// Name of the MCPOIDCConfig.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Audience that a token must be for (claim `aud`).
    #[schemars(length(min = 1, max = 2048))]
    pub audience: String,
    /// Scopes that clients are told to ask for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub scopes: Vec<String>,
    /// Scopes that a token must have; a token without one of them gets 403.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub required_scopes: Vec<String>,
    /// URL at which clients reach this server, told to them as the protected resource (RFC 9728). Default:
    /// taken from the `Host` of each request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub resource_url: Option<String>,
    /// Proof of possession that tokens must have; `dpop` needs `resourceUrl`. Default: `none`, with which
    /// bound tokens are verified, and bearer tokens are accepted too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_binding: Option<RequiredBinding>,
}

/// Proof of possession that tokens must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RequiredBinding {
    /// None.
    None,
    /// A key that signs a proof for each request (DPoP, RFC 9449).
    Dpop,
}

/// A key, and the client it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKey {
    /// Name of the client, for policies and records. Two keys of one subject are one client.
    #[schemars(length(min = 1, max = 253))]
    pub subject: String,
    /// Secret key that holds the key, of at least 16 characters.
    pub secret_key_ref: SecretKeyReference,
    /// Groups of the client, for policies: the claim `groups`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub groups: Vec<String>,
    /// Roles of the client, for policies: the claim `roles`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub roles: Vec<String>,
}
