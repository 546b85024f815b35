//! Authentication of clients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Authentication of clients.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct IncomingAuth {
    /// Kind of authentication; `anonymous` is the only one so far.
    #[serde(rename = "type")]
    pub kind: IncomingAuthType,
}

/// Kinds of authentication.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum IncomingAuthType {
    /// No authentication: every client that reaches the port may call.
    Anonymous,
}

impl Default for IncomingAuth {
    fn default() -> Self {
        Self { kind: IncomingAuthType::Anonymous }
    }
}
