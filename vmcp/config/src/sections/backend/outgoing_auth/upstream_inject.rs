//! `upstreamInject`, and the providers of `authServer` that credentials name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Credentials;
use super::aws::AwsKeys;
use crate::problems::{self, Report};
use crate::sections::incoming_auth::auth_server::AuthServer;

/// The token that an upstream provider gave to the person who calls, when they signed in through
/// `authServer`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "UpstreamInject")]
pub struct RawUpstreamInject {
    /// Required. Name of the provider in `authServer.upstreamProviders`.
    #[schemars(required)]
    pub provider_name: Option<String>,
    /// Credentials with which vmcp lists the backend's tools, which it does once for all clients:
    /// `latestClient` (default) is the token of who signed in last, `none` is for backends that list without
    /// one.
    #[schemars(extend("enum" = ["latestClient", "none", null]))]
    pub list_as: Option<String>,
}

/// Upstream token injection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamInject {
    /// Name of the provider.
    pub provider: String,
    /// True if vmcp lists with the token of the client who signed in last.
    pub list_as_latest: bool,
}

/// Returns the settings, or `None` after a problem was reported.
pub(super) fn validate(raw: &RawUpstreamInject, path: &str, report: &mut Report) -> Option<UpstreamInject> {
    let list_as_latest = match raw.list_as.as_deref() {
        None | Some("latestClient") => true,
        Some("none") => false,
        Some(_) => {
            let at = problems::key(path, "listAs");
            report.problem(&at, "not a way to list", "write `latestClient` or `none`");
            false
        }
    };
    let provider = problems::required(raw.provider_name.as_ref(), path, "providerName", report)?;
    Some(UpstreamInject { provider: provider.clone(), list_as_latest })
}

impl Credentials {
    /// Has the server carry the token that these credentials need, if any.
    pub(crate) fn carry_upstream_token(&self, server: &mut AuthServer) {
        let Some(first) = server.upstreams.first().map(|upstream| upstream.name.clone()) else { return };
        if let Some((provider, is_id_token)) = self.upstream_token(&first) {
            server.carry_token_of(provider, is_id_token);
        }
    }

    /// Returns the provider whose token is needed, and whether that is its ID token. `first` is the provider
    /// that stands for the client where none is named.
    fn upstream_token<'a>(&'a self, first: &'a str) -> Option<(&'a str, bool)> {
        let named = self.upstream_provider().map(|(_, provider)| provider);
        let is_id_token = match self {
            Self::UpstreamInject(_) | Self::OnBehalfOf(_) => false,
            Self::TokenExchange(exchange) => exchange.subject_token_type.ends_with(":id_token"),
            Self::Xaa(xaa) => xaa.subject_token_type.ends_with(":id_token"),
            Self::AwsSts(aws) if aws.is_per_client() => false,
            _ => return None,
        };
        Some((named.unwrap_or(first), is_id_token))
    }

    /// Returns the provider whose token is needed, and the key that names it.
    fn upstream_provider(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::UpstreamInject(inject) => Some(("upstreamInject.providerName", &inject.provider)),
            Self::TokenExchange(exchange) => {
                Some(("tokenExchange.subjectProviderName", exchange.subject_provider.as_deref()?))
            }
            Self::Xaa(xaa) => Some(("xaa.subjectProviderName", xaa.subject_provider.as_deref()?)),
            Self::OnBehalfOf(obo) => Some(("obo.subjectTokenProviderName", obo.subject_provider.as_deref()?)),
            Self::AwsSts(aws) => match &aws.keys {
                AwsKeys::Role(roles) => {
                    Some(("awsSts.subjectProviderName", roles.subject_provider.as_deref()?))
                }
                AwsKeys::Constant { .. } => None,
            },
            _ => None,
        }
    }

    /// Reports a provider that `authServer` does not have.
    pub(super) fn check_upstream(&self, path: &str, server: Option<&AuthServer>, report: &mut Report) {
        let Some((key, provider)) = self.upstream_provider() else { return };
        let at = format!("{path}.{key}");
        match server {
            Some(server) if server.upstream(provider).is_none() => {
                let shown = report.shown(&at, provider);
                let message = format!("{shown} is not among `authServer.upstreamProviders`");
                report.problem(&at, message, "name one of them");
            }
            Some(_) => {}
            None => report.problem(
                &at,
                "clients sign in at a provider through `authServer`, which is missing",
                "add `authServer`",
            ),
        }
    }
}
