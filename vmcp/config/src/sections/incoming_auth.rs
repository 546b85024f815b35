//! `incomingAuth`: who may call.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who may call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IncomingAuth {
    /// Whoever reaches the port.
    #[default]
    Anonymous,
}

/// Who may call.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "IncomingAuth")]
pub struct RawIncomingAuth {
    /// Only `anonymous` so far.
    #[serde(rename = "type")]
    pub kind: RawIncomingAuthType,
}

impl Default for RawIncomingAuth {
    fn default() -> Self {
        Self { kind: RawIncomingAuthType::Anonymous }
    }
}

/// How callers prove who they are.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "IncomingAuthType")]
pub enum RawIncomingAuthType {
    /// They need not: whoever reaches the port may call.
    Anonymous,
}

impl RawIncomingAuth {
    pub(crate) fn validate(&self) -> IncomingAuth {
        match self.kind {
            RawIncomingAuthType::Anonymous => IncomingAuth::Anonymous,
        }
    }
}
