//! `incomingAuth`: authentication of clients, by tokens of identity providers and by keys.

pub(crate) mod api_keys;
pub(crate) mod auth_server;
pub(crate) mod authz;
mod client_certificates;
pub(crate) mod decision_point;
pub(crate) mod introspection;
pub(crate) mod oidc;
pub(crate) mod service_url;
pub(crate) mod source_naming;
pub(crate) mod token_binding;
mod tool_filter;
pub(crate) mod tool_scopes;
pub(crate) mod webhooks;

use std::collections::BTreeSet;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::{self, Report};
use api_keys::{ApiKey, RawApiKey};
use auth_server::AuthServer;
use authz::RawAuthz;
use client_certificates::RawClientCertificates;
use decision_point::RawDecisionPoint;
use oidc::{OidcIssuer, RawOidc};
use source_naming::SourceNaming;
use tool_scopes::{RawToolScope, ToolScopes};

/// Authentication of clients. Empty: every client that reaches the port is anonymous and may call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IncomingAuth {
    /// Issuers whose tokens are accepted. Those of an issuer that is named twice are tried in this order.
    pub issuers: Vec<Arc<OidcIssuer>>,
    /// Keys that are accepted, each of one client.
    pub api_keys: Vec<ApiKey>,
    /// Authorities (PEM) whose certificates are accepted (mTLS).
    pub client_authorities: Option<String>,
    /// Names of the clients of certificates in policies.
    pub certificate_naming: SourceNaming,
    /// The embedded authorization server, whose issuer is among the issuers.
    pub auth_server: Option<Arc<AuthServer>>,
    /// Scopes that calls of tools need.
    pub tool_scopes: ToolScopes,
}

impl IncomingAuth {
    /// Returns true if clients need no credentials.
    pub fn is_anonymous(&self) -> bool {
        self.issuers.is_empty() && self.api_keys.is_empty() && self.client_authorities.is_none()
    }
}

/// Authentication of clients.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "IncomingAuth")]
pub struct RawIncomingAuth {
    /// Credentials that a client must present. `oidc` takes keys of `apiKeys` as well, if there are any, and
    /// both take certificates, if there are `clientCertificates`. Default: `anonymous`, with a warning where
    /// other machines reach the port.
    #[serde(rename = "type")]
    pub kind: Option<RawIncomingAuthType>,
    /// Identity provider whose access tokens are accepted. Needed by `type: oidc`.
    pub oidc: Option<RawOidc>,
    /// Further identity providers, of the shape of `oidc`.
    pub additional_issuers: Vec<RawOidc>,
    /// Keys that clients send as bearer tokens or in `X-API-Key`. Needed by `type: apiKeys`.
    pub api_keys: Vec<RawApiKey>,
    /// Certificates that clients show in the TLS handshake (mTLS). Needed by `type: clientCertificates`.
    pub client_certificates: Option<RawClientCertificates>,
    /// Policies about who may call which tool.
    pub authz: RawAuthz,
    /// Scopes that calls of tools need. A token without them gets 403 with a challenge that names them, so
    /// that the client can ask its user for more (step-up). The tools stay listed.
    pub tool_scopes: Vec<RawToolScope>,
    /// Service that is asked about each call that `authz` permits; both must allow it. Default: none.
    pub decision_point: Option<RawDecisionPoint>,
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
    /// Certificates of an authority (mTLS).
    ClientCertificates,
}

/// Path of the section.
const PATH: &str = "incomingAuth";

impl RawIncomingAuth {
    /// `has_tls`: the client port has TLS; `has_auth_server`: there is an issuer of vmcp's own; `backends`:
    /// names of the configured backends.
    pub(crate) fn validate(
        &self,
        has_tls: bool,
        has_auth_server: bool,
        backends: &BTreeSet<&str>,
        report: &mut Report,
    ) -> IncomingAuth {
        self.check_blocks(has_auth_server, report);
        let mut issuers = Vec::new();
        for (path, block) in self.blocks() {
            issuers.extend(block.validate(&path, report).map(Arc::new));
        }
        self.check_introspection(report);
        token_binding::check(self, has_auth_server, report);
        let certificates = self.client_certificates.as_ref();
        let has_tokens = self.oidc.is_some() || !self.additional_issuers.is_empty() || has_auth_server;
        IncomingAuth {
            tool_scopes: tool_scopes::validate(&self.tool_scopes, backends, has_tokens, report),
            issuers,
            api_keys: api_keys::validate(&self.api_keys, report),
            client_authorities: certificates.map(|block| block.validate(has_tls, report)),
            certificate_naming: certificates.map(|block| block.naming(report)).unwrap_or_default(),
            auth_server: None,
        }
    }

    /// Returns the blocks of issuers with their paths.
    fn blocks(&self) -> impl Iterator<Item = (String, &RawOidc)> {
        let first = self.oidc.iter().map(|block| ("incomingAuth.oidc".to_owned(), block));
        let further = self.additional_issuers.iter().enumerate();
        first.chain(
            further.map(|(index, block)| (problems::item("incomingAuth.additionalIssuers", index), block)),
        )
    }

    /// Reports a second introspection endpoint: an opaque token names no issuer, and a token of one issuer
    /// must not be shown to another.
    fn check_introspection(&self, report: &mut Report) {
        let asked = self.blocks().filter(|(_, block)| block.introspection_url.is_some());
        for (path, _) in asked.skip(1) {
            report.problem(
                &problems::key(&path, "introspectionUrl"),
                "another issuer has one: opaque tokens would be shown to both",
                "keep one `introspectionUrl`; tokens of the other issuers must be JWTs",
            );
        }
    }

    /// Warns of a port that every machine of the network may call, unless the file says that this is meant.
    pub(crate) fn warn_of_open_port(&self, report: &mut Report) {
        if self.kind.is_none() && !report.is_dropped("server.listen") {
            report.warn(
                "server.listen",
                "every machine that reaches this port may call every tool",
                "listen at 127.0.0.1, let in clients with `incomingAuth`, or write `incomingAuth: { type: \
                 anonymous }` if this is meant",
            );
        }
    }

    /// Reports a block that `type` needs and that is missing, and blocks that `type` makes no use of: a list
    /// of keys that protects nothing is a mistake, not a warning.
    fn check_blocks(&self, has_auth_server: bool, report: &mut Report) {
        let default =
            if has_auth_server { RawIncomingAuthType::Oidc } else { RawIncomingAuthType::Anonymous };
        let kind = self.kind.unwrap_or(default);
        if has_auth_server && kind != RawIncomingAuthType::Oidc {
            report.problem(
                &problems::key(PATH, "type"),
                "with `authServer`, clients present its tokens",
                "write `type: oidc`, or remove `authServer`",
            );
        }
        let (oidc, keys) = (self.oidc.is_some(), !self.api_keys.is_empty());
        let further = !self.additional_issuers.is_empty();
        let certificates = self.client_certificates.is_some();
        let mut needs = |name: &str, remedy: &str| {
            report.problem(&problems::key(PATH, name), "missing", remedy);
        };
        match kind {
            RawIncomingAuthType::Oidc if !oidc && !has_auth_server => {
                needs("oidc", "add `oidc: { issuer: https://…, audience: … }`");
            }
            RawIncomingAuthType::ApiKeys if !keys => {
                needs("apiKeys", "add `apiKeys: [{ subject: NAME, key: '${file:/path}' }]`");
            }
            RawIncomingAuthType::ClientCertificates if !certificates => {
                needs(
                    "clientCertificates",
                    "add `clientCertificates: { authorities: '${file:/path/ca.crt}' }`",
                );
            }
            _ => {}
        }
        let tokens_unused = kind != RawIncomingAuthType::Oidc;
        let anonymous = kind == RawIncomingAuthType::Anonymous;
        let keys_unused = anonymous || kind == RawIncomingAuthType::ClientCertificates;
        for (name, unused, wanted) in [
            ("oidc", oidc && tokens_unused, "oidc"),
            ("additionalIssuers", further && tokens_unused, "oidc"),
            ("apiKeys", keys && keys_unused, "apiKeys"),
            ("clientCertificates", certificates && anonymous, "clientCertificates"),
        ] {
            if unused {
                let remedy = format!("set `type: {wanted}`, or remove this block");
                report.problem(&problems::key(PATH, name), "not used by this `type`", remedy);
            }
        }
    }
}
