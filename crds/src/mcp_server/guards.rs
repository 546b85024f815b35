//! Guards of an MCPServer: fields that the bridge in its pod follows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::MCPServerSpec;

/// An embedded authorization server, in an object of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthServerReference {
    /// Kind of the object.
    #[serde(default)]
    pub kind: AuthServerKind,
    /// Name of the object, of `type: embeddedAuthServer`.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Kinds of objects that hold an embedded authorization server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AuthServerKind {
    /// MCPExternalAuthConfig.
    #[default]
    MCPExternalAuthConfig,
}

/// A folder or file of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostVolume {
    /// Name of the volume.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"))]
    pub name: String,
    /// Path on the node.
    #[schemars(length(min = 1, max = 4096))]
    pub host_path: String,
    /// Path in the container.
    #[schemars(length(min = 1, max = 4096))]
    pub mount_path: String,
    /// `true`: the program may not write to it.
    #[serde(default)]
    pub read_only: bool,
}

impl MCPServerSpec {
    /// Returns true if a bridge must stand before the server: it has a field that guards or records calls.
    pub fn is_guarded(&self) -> bool {
        let is_off = self.audit.get("enabled").is_some_and(|enabled| *enabled == Value::Bool(false));
        self.asks_for_tokens()
            || !self.authz_config.is_empty()
            || self.authz_config_ref.is_some()
            || !(self.audit.is_empty() || is_off)
            || !self.rate_limiting.is_empty()
            || self.telemetry_config_ref.is_some()
    }

    /// Returns true if clients must present tokens.
    pub fn asks_for_tokens(&self) -> bool {
        self.oidc_config_ref.is_some() || self.auth_server_ref.is_some()
    }
}
