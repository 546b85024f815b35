//! `incomingAuth`: authentication of clients; `anonymous` is the only kind so far.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::authz::RawAuthz;

/// Authentication of clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IncomingAuth {
    /// No authentication: every client that reaches the port may call.
    #[default]
    Anonymous,
}

/// Authentication of clients.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "IncomingAuth")]
pub struct RawIncomingAuth {
    /// Kind of authentication; `anonymous` is the only one so far.
    #[serde(rename = "type")]
    pub kind: RawIncomingAuthType,
    /// Policies about who may call which tool.
    pub authz: RawAuthz,
}

impl Default for RawIncomingAuth {
    fn default() -> Self {
        Self { kind: RawIncomingAuthType::Anonymous, authz: RawAuthz::default() }
    }
}

/// Kinds of authentication.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "IncomingAuthType")]
pub enum RawIncomingAuthType {
    /// No authentication: every client that reaches the port may call.
    Anonymous,
}

impl RawIncomingAuth {
    pub(crate) fn validate(&self) -> IncomingAuth {
        match self.kind {
            RawIncomingAuthType::Anonymous => IncomingAuth::Anonymous,
        }
    }
}
