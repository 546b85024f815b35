//! MCPExternalAuthConfig: credentials for the backends that refer to it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fields::auth_server::AuthServerConfig;
use crate::fields::cel_rules::rules;
use crate::fields::references::SecretKeyReference;
use crate::fields::yaml_block::Block;
use crate::fields::yaml_block::escape;

/// Credentials for the MCPServers and MCPServerEntries whose `externalAuthConfigRef` names them, or that a
/// VirtualMCPServer's `outgoingAuth` gives them to.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "toolhive.stacklok.com",
    version = "v1alpha1",
    kind = "MCPExternalAuthConfig",
    plural = "mcpexternalauthconfigs",
    namespaced,
    schema = "disabled",
    status = "MCPExternalAuthConfigStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "extauth",
    shortname = "mcpextauth",
    category = "mcp",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(
        name = "Valid",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Valid")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "self.type == 'unauthenticated' || (self.type == 'headerInjection' && has(self.headerInjection)) || (self.type == 'bearerToken' && has(self.bearerToken)) || (self.type == 'clientCredentials' && has(self.clientCredentials)) || (self.type == 'tokenExchange' && has(self.tokenExchange)) || (self.type == 'xaa' && has(self.xaa)) || (self.type == 'obo' && has(self.obo)) || (self.type == 'awsSts' && has(self.awsSts)) || (self.type == 'upstreamInject' && has(self.upstreamInject)) || (self.type == 'embeddedAuthServer' && has(self.embeddedAuthServer))",
    "the block of this type is missing; add it under the name of the type",
)])))]
pub struct MCPExternalAuthConfigSpec {
    /// Kind of credentials; the block of its name holds the rest.
    #[serde(rename = "type")]
    pub kind: ExternalAuthType,
    /// One constant header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header_injection: Option<HeaderInjection>,
    /// A constant bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_token: Option<BearerToken>,
    /// A token for vmcp itself (RFC 6749, 4.4), the same for all clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_credentials: Option<ClientCredentials>,
    /// A token in exchange for the client's (RFC 8693).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_exchange: Option<TokenExchange>,
    /// Cross-application access: an identity assertion (ID-JAG), then a token of the backend's authorization
    /// server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xaa: Option<Xaa>,
    /// Microsoft Entra's on-behalf-of flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obo: Option<OnBehalfOf>,
    /// Requests signed for AWS (Signature Version 4), with keys of a role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws_sts: Option<AwsSts>,
    /// The token that a provider of the VirtualMCPServer's `authServerConfig` gave to the person who calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_inject: Option<UpstreamInject>,
    /// Embedded authorization server of the MCPServers whose `authServerRef` names this object. It is not a
    /// credential: a backend that names it in `externalAuthConfigRef` is not called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedded_auth_server: Option<AuthServerConfig>,
}

/// Kinds of credentials.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ExternalAuthType {
    /// None.
    #[default]
    Unauthenticated,
    /// One constant header.
    HeaderInjection,
    /// A constant bearer token.
    BearerToken,
    /// A token for vmcp itself.
    ClientCredentials,
    /// A token in exchange for the client's.
    TokenExchange,
    /// Cross-application access.
    Xaa,
    /// Microsoft Entra's on-behalf-of flow.
    Obo,
    /// Requests signed for AWS.
    AwsSts,
    /// The person's token of an upstream provider.
    UpstreamInject,
    /// An authorization server, in place of credentials.
    EmbeddedAuthServer,
}

/// Upstream token injection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamInject {
    /// Name of the provider in `spec.authServerConfig.upstreamProviders` of the VirtualMCPServer.
    #[schemars(length(min = 1, max = 63))]
    pub provider_name: String,
    /// Credentials with which the backend's tools are listed, once for all clients: `latestClient` (default)
    /// is the token of who signed in last, `none` is for backends that list without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^(latestClient|none)$"))]
    pub list_as: Option<String>,
}

/// One constant header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeaderInjection {
    /// Name of the header, such as `X-Api-Key`.
    #[schemars(length(min = 1, max = 255))]
    pub header_name: String,
    /// Secret key that holds the whole value.
    pub value_secret_ref: SecretKeyReference,
}

/// A constant bearer token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BearerToken {
    /// Secret key that holds the token, without `Bearer`.
    pub token_secret_ref: SecretKeyReference,
}

/// Client credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientCredentials {
    /// Token endpoint, https.
    #[schemars(length(min = 1, max = 2048))]
    pub token_url: String,
    /// Client identifier.
    #[schemars(length(min = 1, max = 1024))]
    pub client_id: String,
    /// Secret key that holds the client secret.
    pub client_secret_ref: SecretKeyReference,
    /// The `audience` parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// The `resource` parameter (RFC 8707).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Scopes of the token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub scopes: Vec<String>,
    /// Allows an http `tokenUrl`: an attacker in the network gets secret and tokens.
    #[serde(default)]
    pub insecure_allow_http: bool,
}

/// Token exchange (RFC 8693).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenExchange {
    /// Token endpoint, https.
    #[schemars(length(min = 1, max = 2048))]
    pub token_url: String,
    /// The `audience` parameter: the backend, as the authorization server knows it.
    #[schemars(length(min = 1, max = 2048))]
    pub audience: String,
    /// The `resource` parameter (RFC 8707).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Client identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Secret key that holds the client secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret_ref: Option<SecretKeyReference>,
    /// Scopes of the token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub scopes: Vec<String>,
    /// Type of the client's token: `access_token` (default), `id_token`, `jwt`, or the URN of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(
        pattern = r"^(access_token|id_token|jwt|urn:ietf:params:oauth:token-type:(access_token|id_token|jwt))?$"
    ))]
    pub subject_token_type: Option<String>,
    /// Provider of `authServerConfig` whose token is exchanged. Default: the client's own token; where
    /// `authServerConfig` gave that, the token of its first provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub subject_provider_name: Option<String>,
    /// Allows an http `tokenUrl`: an attacker in the network gets secret and tokens.
    #[serde(default)]
    pub insecure_allow_http: bool,
}

/// Cross-application access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Xaa {
    /// Token endpoint of the identity provider, https.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^https://.*$"))]
    pub idp_token_url: String,
    /// Client identifier there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idp_client_id: Option<String>,
    /// Secret key that holds the client secret there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idp_client_secret_ref: Option<SecretKeyReference>,
    /// Token endpoint of the backend's authorization server.
    #[schemars(length(min = 1, max = 2048))]
    pub target_token_url: String,
    /// Issuer of that server: the audience of the assertion.
    #[schemars(length(min = 1, max = 2048))]
    pub target_audience: String,
    /// The `resource` parameter: the backend itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_resource: Option<String>,
    /// Client identifier there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_client_id: Option<String>,
    /// Secret key that holds the client secret there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_client_secret_ref: Option<SecretKeyReference>,
    /// Scopes of both tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub scopes: Vec<String>,
    /// Type of the client's token. Default: `id_token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject_token_type: Option<String>,
    /// Provider of `authServerConfig` whose token is exchanged. Default: the client's own token; where
    /// `authServerConfig` gave that, the token of its first provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub subject_provider_name: Option<String>,
    /// Allows an http `targetTokenUrl`.
    #[serde(default)]
    pub insecure_target_token_url: bool,
}

/// Microsoft Entra's on-behalf-of flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OnBehalfOf {
    /// Directory (tenant) identifier.
    #[schemars(length(min = 1, max = 255))]
    pub tenant_id: String,
    /// Login host. Default: `https://login.microsoftonline.com`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// Application (client) identifier.
    #[schemars(length(min = 1, max = 255))]
    pub client_id: String,
    /// Secret key that holds the client secret.
    pub client_secret_ref: SecretKeyReference,
    /// Identifier of the backend; asks for `<audience>/.default` unless there are `scopes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// Scopes of the token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "atomic"))]
    pub scopes: Vec<String>,
    /// Provider of `authServerConfig` whose token is asserted. Default: the client's own token; where
    /// `authServerConfig` gave that, the token of its first provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub subject_token_provider_name: Option<String>,
}

/// Requests signed for AWS. STS gives the keys of a role for the token that a client has shown to vmcp
/// (AssumeRoleWithWebIdentity), or for a token in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AwsSts {
    /// Region of the backend and of STS.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z]{2}(-[a-z]+)+-\d+$"))]
    pub region: String,
    /// Name of the service in signatures. Default: `aws-mcp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Role of clients that no mapping names; without it they are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 2048),
        regex(pattern = r"^arn:(aws|aws-cn|aws-us-gov):iam::\d{12}:role/[\w+=,.@\-_/]+$")
    )]
    pub fallback_role_arn: Option<String>,
    /// Roles by a claim of the client's token; the lowest `priority` that fits wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub role_mappings: Vec<AwsRoleMapping>,
    /// Claim that the mappings look at. Default: `groups`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_claim: Option<String>,
    /// Life of the keys, in seconds. Default: 3600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 900, max = 43200))]
    pub session_duration: Option<i32>,
    /// Claim that names the session in AWS's logs. Default: `sub`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_name_claim: Option<String>,
    /// Provider of `authServerConfig` whose token is shown to STS. Default: the client's own token; where
    /// `authServerConfig` gave that, the token of its first provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub subject_provider_name: Option<String>,
    /// File in the pod with a token of vmcp itself, such as that of an IAM role for service accounts. With it
    /// vmcp lists the backend as `fallbackRoleArn`. Without `roleMappings`, all clients act as that role too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub web_identity_token_file: Option<String>,
}

/// A role for clients with a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AwsRoleMapping {
    /// Value of the claim, or one of its values.
    #[schemars(length(min = 1, max = 1024))]
    pub claim: String,
    /// ARN of the role.
    #[schemars(
        length(max = 2048),
        regex(pattern = r"^arn:(aws|aws-cn|aws-us-gov):iam::\d{12}:role/[\w+=,.@\-_/]+$")
    )]
    pub role_arn: String,
    /// Lower ones come first; without one, after all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub priority: Option<i32>,
}

/// Observed state of an MCPExternalAuthConfig.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPExternalAuthConfigStatus {
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the credentials; `Valid` says what is wrong.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl MCPExternalAuthConfigSpec {
    /// Returns the Secrets that the credentials refer to.
    pub fn secret_references(&self) -> Vec<SecretKeyReference> {
        if let Some(server) = self.auth_server() {
            return server.secret_references();
        }
        let mut found = Vec::new();
        self.lower(&mut |secret| {
            found.push(secret.clone());
            Value::Null
        });
        found
    }

    /// Returns the embedded authorization server; `None` for credentials.
    pub fn auth_server(&self) -> Option<&AuthServerConfig> {
        let is_server = self.kind == ExternalAuthType::EmbeddedAuthServer;
        self.embedded_auth_server.as_ref().filter(|_| is_server)
    }

    /// Returns the provider of `authServerConfig` whose token the credentials need.
    pub fn upstream_provider(&self) -> Option<&str> {
        match self.kind {
            ExternalAuthType::UpstreamInject => {
                self.upstream_inject.as_ref().map(|block| block.provider_name.as_str())
            }
            ExternalAuthType::TokenExchange => self.token_exchange.as_ref()?.subject_provider_name.as_deref(),
            ExternalAuthType::Xaa => self.xaa.as_ref()?.subject_provider_name.as_deref(),
            ExternalAuthType::Obo => self.obo.as_ref()?.subject_token_provider_name.as_deref(),
            ExternalAuthType::AwsSts => self.aws_sts.as_ref()?.subject_provider_name.as_deref(),
            _ => None,
        }
    }

    /// Returns the entry of `outgoingAuth.backends`; `refer` returns the reference to a Secret's value.
    pub(crate) fn lower(&self, refer: &mut dyn FnMut(&SecretKeyReference) -> Value) -> Value {
        // The blocks have the names of the file, but for references to Secrets.
        let (kind, block) = match self.kind {
            ExternalAuthType::Unauthenticated => ("unauthenticated", None),
            // No kind of the file, which the validator therefore refuses.
            ExternalAuthType::EmbeddedAuthServer => ("embeddedAuthServer", None),
            ExternalAuthType::HeaderInjection => (
                "headerInjection",
                self.header_injection.as_ref().map(|header| {
                    json!({ "headerName": header.header_name, "headerValue": refer(&header.value_secret_ref) })
                }),
            ),
            ExternalAuthType::BearerToken => (
                "headerInjection",
                self.bearer_token.as_ref().map(|token| {
                    let value = refer(&token.token_secret_ref);
                    let value = format!("Bearer {}", value.as_str().unwrap_or_default());
                    json!({ "headerName": "Authorization", "headerValue": value })
                }),
            ),
            ExternalAuthType::ClientCredentials => {
                ("clientCredentials", self.client_credentials.as_ref().map(|block| written(block, refer)))
            }
            ExternalAuthType::TokenExchange => {
                ("tokenExchange", self.token_exchange.as_ref().map(|block| written(block, refer)))
            }
            ExternalAuthType::Xaa => ("xaa", self.xaa.as_ref().map(|block| written(block, refer))),
            ExternalAuthType::Obo => ("obo", self.obo.as_ref().map(|block| written(block, refer))),
            ExternalAuthType::AwsSts => ("awsSts", self.aws_sts.as_ref().map(|block| written(block, refer))),
            ExternalAuthType::UpstreamInject => {
                ("upstreamInject", self.upstream_inject.as_ref().map(|block| written(block, refer)))
            }
        };
        let mut entry = Block::from_iter([("type".to_owned(), Value::from(kind))]);
        if let Some(block) = block {
            entry.insert(kind.to_owned(), block);
        }
        entry.into()
    }
}

/// Writes a block as the file has it: `clientSecretRef: {name, key}` becomes `clientSecret: ${file:…}`.
fn written(block: &impl Serialize, refer: &mut dyn FnMut(&SecretKeyReference) -> Value) -> Value {
    let Ok(Value::Object(fields)) = serde_json::to_value(block) else { return Value::Null };
    let field = |(name, value): (String, Value)| match name.strip_suffix("Ref") {
        Some(name) => serde_json::from_value(value).map_or_else(
            |_| (name.to_owned(), Value::Null),
            |secret: SecretKeyReference| (name.to_owned(), refer(&secret)),
        ),
        None => (name, escape(value)),
    };
    Value::Object(fields.into_iter().map(field).collect())
}
