//! `incomingAuth`: authentication of clients, by tokens of identity providers and by keys.

pub(crate) mod api_keys;
pub(crate) mod oidc;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::authz::RawAuthz;
use crate::problems::{self, Report};
use api_keys::{ApiKey, RawApiKey};
use oidc::{OidcIssuer, RawOidc};

/// Authentication of clients. Empty: every client that reaches the port is anonymous and may call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IncomingAuth {
    /// Issuers whose tokens are accepted. Those of an issuer that is named twice are tried in this order.
    pub issuers: Vec<Arc<OidcIssuer>>,
    /// Keys that are accepted, each of one client.
    pub api_keys: Vec<ApiKey>,
}

impl IncomingAuth {
    /// Returns true if clients need no credentials.
    pub fn is_anonymous(&self) -> bool {
        self.issuers.is_empty() && self.api_keys.is_empty()
    }
}

/// Authentication of clients.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "IncomingAuth")]
pub struct RawIncomingAuth {
    /// Credentials that a client must present. `oidc` takes keys of `apiKeys` as well, if there are any.
    #[serde(rename = "type")]
    pub kind: RawIncomingAuthType,
    /// Identity provider whose access tokens are accepted. Needed by `type: oidc`.
    pub oidc: Option<RawOidc>,
    /// Further identity providers, of the shape of `oidc`.
    pub additional_issuers: Vec<RawOidc>,
    /// Keys that clients send as bearer tokens or in `X-API-Key`. Needed by `type: apiKeys`.
    pub api_keys: Vec<RawApiKey>,
    /// Policies about who may call which tool.
    pub authz: RawAuthz,
}

impl Default for RawIncomingAuth {
    fn default() -> Self {
        Self {
            kind: RawIncomingAuthType::Anonymous,
            oidc: None,
            additional_issuers: Vec::new(),
            api_keys: Vec::new(),
            authz: RawAuthz::default(),
        }
    }
}

/// Kinds of authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "IncomingAuthType")]
pub enum RawIncomingAuthType {
    /// No authentication: every client that reaches the port may call.
    Anonymous,
    /// Access tokens (JWT) of an identity provider, as MCP's authorization chapter has it.
    Oidc,
    /// Keys from a list.
    ApiKeys,
}

/// Path of the section.
const PATH: &str = "incomingAuth";

impl RawIncomingAuth {
    pub(crate) fn validate(&self, report: &mut Report) -> IncomingAuth {
        self.check_blocks(report);
        let mut issuers = Vec::new();
        let blocks = self.oidc.iter().map(|block| ("incomingAuth.oidc".to_owned(), block));
        let further = self.additional_issuers.iter().enumerate();
        let further =
            further.map(|(index, block)| (problems::item("incomingAuth.additionalIssuers", index), block));
        for (path, block) in blocks.chain(further) {
            issuers.extend(block.validate(&path, report).map(Arc::new));
        }
        IncomingAuth { issuers, api_keys: api_keys::validate(&self.api_keys, report) }
    }

    /// Reports a block that `type` needs and that is missing, and blocks that `type` makes no use of: a list
    /// of keys that protects nothing is a mistake, not a warning.
    fn check_blocks(&self, report: &mut Report) {
        let (oidc, keys) = (self.oidc.is_some(), !self.api_keys.is_empty());
        let further = !self.additional_issuers.is_empty();
        let mut needs = |name: &str, remedy: &str| {
            report.problem(&problems::key(PATH, name), "missing", remedy);
        };
        match self.kind {
            RawIncomingAuthType::Oidc if !oidc => {
                needs("oidc", "add `oidc: { issuer: https://…, audience: … }`");
            }
            RawIncomingAuthType::ApiKeys if !keys => {
                needs("apiKeys", "add `apiKeys: [{ subject: NAME, key: '${file:/path}' }]`");
            }
            _ => {}
        }
        let tokens_unused = self.kind != RawIncomingAuthType::Oidc;
        let keys_unused = self.kind == RawIncomingAuthType::Anonymous;
        for (name, unused, kind) in [
            ("oidc", oidc && tokens_unused, "oidc"),
            ("additionalIssuers", further && tokens_unused, "oidc"),
            ("apiKeys", keys && keys_unused, "apiKeys"),
        ] {
            if unused {
                let remedy = format!("set `type: {kind}`, or remove this block");
                report.problem(&problems::key(PATH, name), "not used by this `type`", remedy);
            }
        }
    }
}
