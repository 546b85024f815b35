//! Keys of `awsSts`, as written.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::values::secret::Secret;

/// Requests signed for AWS (Signature Version 4). Keys are those of a role, which STS gives for the token
/// that the client has shown to vmcp, or for the token of a file; or constant ones.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "AwsSts")]
pub struct RawAwsSts {
    /// Required. Region of the backend and of STS, such as `us-east-1`.
    #[schemars(required)]
    pub region: Option<String>,
    /// Name of the service in signatures. Default: `aws-mcp`.
    pub service: Option<String>,
    /// Role of clients that no mapping names; without it they are refused.
    pub fallback_role_arn: Option<String>,
    /// Roles by a claim of the client's token; the lowest `priority` that fits wins.
    pub role_mappings: Vec<RawRoleMapping>,
    /// Claim that the mappings look at. Default: `groups`.
    pub role_claim: Option<String>,
    /// Life of the keys, in seconds. Default: 3600.
    #[schemars(range(min = 900, max = 43_200))]
    pub session_duration: Option<u32>,
    /// Claim that names the session in AWS's logs. Default: `sub`.
    pub session_name_claim: Option<String>,
    /// Provider of `authServer` whose token is shown to STS. Default: the client's own token; where
    /// `authServer` gave that, the token of its first provider.
    pub subject_provider_name: Option<String>,
    /// File with a token of vmcp itself, such as that of a Kubernetes service account; read whenever keys are
    /// fetched. With it vmcp lists the backend as `fallbackRoleArn`. Without `roleMappings`, all clients act
    /// as that role too.
    pub web_identity_token_file: Option<PathBuf>,
    /// Endpoint of STS. Default: that of the region.
    pub sts_endpoint: Option<String>,
    /// Identifier of a constant key, in place of roles: all clients act as its owner.
    pub access_key_id: Option<Secret>,
    /// The constant key.
    pub secret_access_key: Option<Secret>,
    /// Session token of keys that expire.
    pub session_token: Option<Secret>,
}

/// A role for clients with a claim.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "AwsRoleMapping")]
pub struct RawRoleMapping {
    /// Required. Value of the claim, or one of its values.
    #[schemars(required)]
    pub claim: Option<String>,
    /// Required. ARN of the role.
    #[schemars(required)]
    pub role_arn: Option<String>,
    /// Lower ones come first; without one, after all others.
    pub priority: Option<u32>,
}
