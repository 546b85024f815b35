//! Grants: the requests that each kind of credentials makes for a token.

use std::path::PathBuf;

use vmcp_config::{Credentials, TokenEndpoint, UpstreamInject};

use super::aws::{AwsSigner, KeysFor};
use super::cache::FetchedToken;
use super::logins::LoginTokens;
use super::provider::{HttpClient, Provider, TokenAnswer};
use super::subject_token::SubjectToken;
use super::{OutgoingError, Subject};

const CLIENT_CREDENTIALS: &str = "client_credentials";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
/// Identity assertion authorization grant.
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// The kinds of credentials with their providers.
#[derive(Debug)]
pub(super) enum Grants {
    ClientCredentials {
        provider: Provider,
        parameters: Parameters,
    },
    TokenExchange {
        provider: Provider,
        parameters: Parameters,
        subject_type: String,
        has_secret: bool,
        from: SubjectToken,
    },
    Xaa {
        idp: Provider,
        target: Provider,
        parameters: Parameters,
        subject_type: String,
        from: SubjectToken,
    },
    OnBehalfOf {
        provider: Provider,
        parameters: Parameters,
        from: SubjectToken,
    },
    /// Nothing is requested.
    Upstream(UpstreamInject),
    Login(LoginTokens),
    Aws(AwsSigner),
}

/// Parameters that grants have in common.
#[derive(Debug)]
pub(super) struct Parameters {
    audience: Option<String>,
    resource: Option<String>,
    /// Separated by spaces; empty: not sent.
    scope: String,
}

impl Parameters {
    fn new(audience: Option<&String>, resource: Option<&String>, scopes: &[String]) -> Self {
        Self { audience: audience.cloned(), resource: resource.cloned(), scope: scopes.join(" ") }
    }

    fn scope(&self) -> Option<(&'static str, &str)> {
        Some(("scope", self.scope.as_str())).filter(|(_, scope)| !scope.is_empty())
    }

    fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let audience = self.audience.as_deref().map(|audience| ("audience", audience));
        let resource = self.resource.as_deref().map(|resource| ("resource", resource));
        audience.into_iter().chain(resource).chain(self.scope())
    }
}

fn no_token() -> OutgoingError {
    OutgoingError {
        reason: "it wants a token in exchange for the client's own; sign in to vmcp with a token".to_owned(),
        detail: String::new(),
    }
}

/// A request: for a token for vmcp itself, for one in exchange for a client's token, for keys.
#[derive(Clone, Copy)]
pub(super) enum GrantRequest<'a> {
    Own,
    Exchange(&'a str),
    Keys(KeysFor<'a>),
}

impl Grants {
    pub(super) fn new(
        backend: &str,
        credentials: &Credentials,
        http: HttpClient,
        logins: Option<PathBuf>,
    ) -> Option<Self> {
        let provider = |endpoint: &TokenEndpoint| Provider::new(endpoint.clone(), http.clone());
        Some(match credentials {
            Credentials::AwsSts(settings) => Self::Aws(AwsSigner::new(settings.clone(), http)),
            Credentials::Automatic | Credentials::None => return None,
            Credentials::UpstreamInject(inject) => Self::Upstream(inject.clone()),
            Credentials::OAuth(_) => Self::Login(LoginTokens::new(backend, logins, http)),
            Credentials::ClientCredentials(own) => Self::ClientCredentials {
                provider: provider(&own.endpoint),
                parameters: Parameters::new(own.audience.as_ref(), own.resource.as_ref(), &own.scopes),
            },
            Credentials::TokenExchange(exchange) => Self::TokenExchange {
                has_secret: exchange.endpoint.client_secret.is_some(),
                provider: provider(&exchange.endpoint),
                parameters: Parameters::new(
                    exchange.audience.as_ref(),
                    exchange.resource.as_ref(),
                    &exchange.scopes,
                ),
                subject_type: exchange.subject_token_type.clone(),
                from: SubjectToken::new(exchange.subject_provider.as_ref(), &exchange.subject_token_type),
            },
            Credentials::Xaa(xaa) => Self::Xaa {
                idp: provider(&xaa.idp),
                target: provider(&xaa.target),
                parameters: Parameters::new(Some(&xaa.audience), xaa.resource.as_ref(), &xaa.scopes),
                subject_type: xaa.subject_token_type.clone(),
                from: SubjectToken::new(xaa.subject_provider.as_ref(), &xaa.subject_token_type),
            },
            Credentials::OnBehalfOf(obo) => Self::OnBehalfOf {
                provider: provider(&obo.endpoint),
                parameters: Parameters::new(None, None, &obo.scopes),
                from: SubjectToken::new(obo.subject_provider.as_ref(), ACCESS_TOKEN),
            },
        })
    }

    /// True if each client gets a token of its own.
    pub(super) fn is_per_client(&self) -> bool {
        match self {
            Self::ClientCredentials { .. } | Self::Login(_) => false,
            Self::Aws(signer) => signer.is_per_client(),
            _ => true,
        }
    }

    /// Returns the request for a subject; `None` if it gets no token.
    pub(super) fn request<'a>(
        &'a self,
        subject: Subject<'a>,
    ) -> Result<Option<GrantRequest<'a>>, OutgoingError> {
        match (self, subject) {
            (Self::Aws(signer), subject) => Ok(signer.keys_for(subject)?.map(GrantRequest::Keys)),
            (Self::ClientCredentials { .. } | Self::Login(_), _) => Ok(Some(GrantRequest::Own)),
            (Self::TokenExchange { has_secret, .. }, Subject::Vmcp) => {
                Ok(has_secret.then_some(GrantRequest::Own))
            }
            // For upstream tokens, `BackendTokens` asks for no request.
            (Self::Xaa { .. } | Self::OnBehalfOf { .. }, Subject::Vmcp) | (Self::Upstream(_), _) => Ok(None),
            (
                Self::TokenExchange { from, .. } | Self::Xaa { from, .. } | Self::OnBehalfOf { from, .. },
                Subject::Client(identity),
            ) => {
                let token = identity.as_known().and_then(|known| from.token_for(known));
                token.map(|token| Some(GrantRequest::Exchange(token))).ok_or_else(no_token)
            }
        }
    }

    /// Requests a token. `refused` is the one before, which the backend refused.
    pub(super) async fn fetch(
        &self,
        request: GrantRequest<'_>,
        refused: Option<&str>,
    ) -> Result<FetchedToken, OutgoingError> {
        let answer = match (self, request) {
            (Self::Login(login), _) => return login.fetch(refused).await,
            (Self::Aws(signer), GrantRequest::Keys(subject)) => return signer.fetch(subject).await,
            (Self::Aws(signer), _) => return signer.fetch(KeysFor::Vmcp).await,
            (Self::Upstream(_), _) => return Err(no_token()),
            (Self::ClientCredentials { provider, parameters }, _)
            | (Self::TokenExchange { provider, parameters, .. }, GrantRequest::Own) => {
                let mut form = vec![("grant_type", CLIENT_CREDENTIALS)];
                form.extend(parameters.all());
                provider.access_token(&form).await?
            }
            (
                Self::TokenExchange { provider, parameters, subject_type, .. },
                GrantRequest::Exchange(token),
            ) => {
                let mut form = exchange(token, subject_type, ACCESS_TOKEN);
                form.extend(parameters.all());
                provider.access_token(&form).await?
            }
            (Self::Xaa { idp, target, parameters, subject_type, .. }, GrantRequest::Exchange(token)) => {
                let mut form = exchange(token, subject_type, ID_JAG);
                form.extend(parameters.all());
                let assertion = idp.ask(&form).await?.access_token;
                let mut form = vec![("grant_type", JWT_BEARER), ("assertion", assertion.expose())];
                form.extend(parameters.scope());
                target.access_token(&form).await?
            }
            (Self::OnBehalfOf { provider, parameters, .. }, GrantRequest::Exchange(token)) => {
                let mut form = vec![
                    ("grant_type", JWT_BEARER),
                    ("assertion", token),
                    ("requested_token_use", "on_behalf_of"),
                ];
                form.extend(parameters.scope());
                provider.access_token(&form).await?
            }
            // `request` makes none of these.
            (
                Self::Xaa { idp: provider, .. }
                | Self::OnBehalfOf { provider, .. }
                | Self::TokenExchange { provider, .. },
                _,
            ) => {
                return Err(provider.failed("there is no client to ask for", ""));
            }
        };
        Ok(fetched(answer))
    }
}

fn fetched(answer: TokenAnswer) -> FetchedToken {
    FetchedToken { life: answer.life(), token: answer.access_token }
}

/// The parameters of RFC 8693 that exchanges have in common.
fn exchange<'a>(token: &'a str, subject_type: &'a str, wanted: &'a str) -> Vec<(&'static str, &'a str)> {
    vec![
        ("grant_type", TOKEN_EXCHANGE),
        ("subject_token", token),
        ("subject_token_type", subject_type),
        ("requested_token_type", wanted),
    ]
}
