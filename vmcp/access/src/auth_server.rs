//! The embedded authorization server (OAuth 2.1): clients register, a person consents and signs in at the
//! upstream providers, the client gets a short-lived token of vmcp's own.
//!
//! The server has no database. Clients carry their registration and refresh tokens, browsers carry states and
//! codes; all are sealed, so that any replica with the keys can continue. Tokens of providers are sealed into
//! the client's tokens; only backends that name the provider receive them readable. Three bounded tables are
//! in memory: [`pending_logins`](sign_in::pending_logins), [`spent_states`](sign_in::spent_states) and
//! [`families`](token_endpoint::families).
//!
//! | room | holds |
//! |---|---|
//! | `endpoint` | paths, shapes of answers |
//! | `client` | registration, redirect URIs, authorization requests |
//! | `sign_in` | the way of a person through one browser, its pages, and finished sign-ins without a token |
//! | `upstream_provider` | one identity provider |
//! | `token_endpoint` | codes and refresh tokens; `families` is their rotation, `grant` their content |
//! | `signing_keys`, `key_file`, `seals` | the keys |

mod client;
mod endpoint;
mod key_file;
mod oauth_error;
mod random;
mod seals;
mod server_metadata;
mod sign_in;
mod sign_in_event;
mod signing_keys;
mod token_endpoint;
mod upstream_provider;

use std::net::SocketAddr;
use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::{Map, Value};
use vmcp_config::{AuthServer as Config, Finding};

use self::client::form::Form;
use self::client::registration;
pub use self::endpoint::EndpointRequest;
use self::endpoint::{Answer, Endpoint, failure, json, not_allowed};
use self::random::random;
use self::seals::{Purpose, Seals};
use self::sign_in::pending_logins::PendingLogins;
use self::sign_in::spent_states::SpentStates;
use self::sign_in::{LoginRef, Stage};
pub use self::sign_in_event::SignInEvent;
use self::signing_keys::SigningKeys;
use self::token_endpoint::UPSTREAM_CLAIM;
use self::token_endpoint::families::Families;
use self::upstream_provider::UpstreamProvider;
pub use self::upstream_provider::console_sign_in::{
    ConsoleRole, ConsoleSignIn, SignInAttempt, SignInError, SignedInPerson,
};
use crate::authentication::revocations::Revocations;
use crate::identity::upstream_tokens::{UpstreamToken, UpstreamTokens};
use crate::oidc::key_source::Timing;
use crate::oidc::keys::KeySet;

/// Step of a registration.
const REGISTER: &str = "oauth.register";

/// The authorization server of one configuration.
#[derive(Debug)]
pub struct AuthServer {
    config: Arc<Config>,
    keys: SigningKeys,
    seals: Seals,
    upstreams: Vec<UpstreamProvider>,
    /// Sign-ins that were withdrawn are renewed no more.
    revocations: Arc<Revocations>,
    process: Arc<Process>,
}

/// State that outlives a reload.
struct Process {
    /// Random, to tell replicas apart.
    id: u64,
    /// Secret that seals, and that a key is derived from, where none is configured.
    secret: [u8; 32],
    logins: PendingLogins,
    states: SpentStates,
    families: Families,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").finish_non_exhaustive()
    }
}

impl AuthServer {
    /// Starts the server, which takes over the tables of its predecessor. Waits for no provider. `None` if a
    /// key cannot be used; the log says which.
    pub(crate) fn start(
        config: &Arc<Config>,
        before: Option<&AuthServer>,
        timing: Timing,
        revocations: &Arc<Revocations>,
    ) -> Option<Self> {
        let process = before.map_or_else(
            || {
                Arc::new(Process {
                    id: u64::from_le_bytes(random()),
                    secret: random(),
                    logins: PendingLogins::default(),
                    states: SpentStates::default(),
                    families: Families::default(),
                })
            },
            |before| Arc::clone(&before.process),
        );
        let secrets = &config.sealing_secrets;
        let keys = SigningKeys::new(&config.signing_keys, secrets, &process.secret);
        let keys = keys.inspect_err(|error| tracing::error!(%error, "no authorization server")).ok()?;
        let seals = Seals::new(secrets, &process.secret);
        let seals = seals.inspect_err(|error| tracing::error!(%error, "no authorization server")).ok()?;
        if before.is_none() && secrets.is_empty() {
            tracing::warn!(
                "neither authServer.hmacSecrets nor server.sessionKeys has a secret: one was made; clients register \
                 and sign in again after a restart"
            );
        }
        let upstreams =
            config.upstreams.iter().map(|upstream| UpstreamProvider::start(Arc::clone(upstream), timing));
        Some(Self {
            config: Arc::clone(config),
            keys,
            seals,
            upstreams: upstreams.collect(),
            revocations: Arc::clone(revocations),
            process,
        })
    }

    /// Returns true if a path is one of the server's.
    pub fn serves(&self, path: &str) -> bool {
        Endpoint::from_path(path, &self.config.issuer_url).is_some()
    }

    /// Returns the address of the process that keeps the login of a request, if it is another one.
    pub fn home_of(&self, request: &EndpointRequest<'_>) -> Option<SocketAddr> {
        let at = match Endpoint::from_path(request.path, &self.config.issuer_url)? {
            Endpoint::Callback => {
                let form = Form::read(request.query?.as_bytes()).ok()?;
                match self.state_of(&form)?.stage {
                    Stage::Continue(at) => at,
                    Stage::Begin(_) => return None,
                }
            }
            Endpoint::Token => self.code_of(&Form::read(request.body).ok()?)?,
            _ => return None,
        };
        let LoginRef { process, home, .. } = at;
        if process == self.process.id { None } else { home.parse().ok() }
    }

    /// Answers a request to a path that the server [serves](Self::serves).
    pub async fn answer(&self, request: &EndpointRequest<'_>) -> http::Response<String> {
        let Some(endpoint) = Endpoint::from_path(request.path, &self.config.issuer_url) else {
            return not_found();
        };
        if !endpoint.methods().contains(request.method) {
            return not_allowed(endpoint.methods());
        }
        match endpoint {
            Endpoint::Metadata => {
                public(json(StatusCode::OK, server_metadata::document(&self.config).to_string()))
            }
            Endpoint::Keys => public(json(StatusCode::OK, self.keys.key_set().to_string())),
            Endpoint::Register => {
                match registration::register(request.body, &self.config.scopes, &self.seals) {
                    Ok(registered) => {
                        let client = registered.get("client_name").and_then(Value::as_str).map(str::to_owned);
                        let event = SignInEvent { client, ..SignInEvent::done(REGISTER, "registered") };
                        event.on(json(StatusCode::CREATED, registered.to_string()))
                    }
                    Err(error) => SignInEvent::failed(REGISTER, &error).on(failure(&error)),
                }
            }
            Endpoint::Authorize if *request.method == Method::POST => {
                sign_in_event::of_step("oauth.consent", "consent given", self.consented(request).await)
            }
            Endpoint::Authorize => {
                sign_in_event::of_step("oauth.authorize", "consent asked for", self.authorize(request))
            }
            Endpoint::Callback => {
                let answer = self.callback(request).await;
                sign_in_event::of_step("oauth.sign_in", "sent to the next provider", answer)
            }
            Endpoint::Token => self.token(request).await,
        }
    }

    /// Returns the keys that verify the tokens of this server, and the version of them.
    pub(crate) fn verifying_keys(&self) -> KeySet {
        KeySet::parse(self.keys.key_set().to_string().as_bytes()).unwrap_or_default()
    }

    /// Takes the tokens of providers out of the claims of a verified token, so that neither policies nor
    /// records see them. Returns no tokens for another subject.
    pub(crate) fn take_upstream(&self, subject: &str, claims: &mut Map<String, Value>) -> UpstreamTokens {
        let sealed = claims.remove(UPSTREAM_CLAIM);
        let sealed = sealed.as_ref().and_then(Value::as_str);
        let opened: Option<(String, Vec<UpstreamToken>)> =
            sealed.and_then(|sealed| self.seals.open(Purpose::Upstream, sealed));
        let of_subject = opened.filter(|(of, _)| of == subject);
        of_subject.map_or_else(UpstreamTokens::default, |(_, tokens)| UpstreamTokens::new(tokens))
    }

    /// Returns the URL of an endpoint.
    fn url_of(&self, endpoint: Endpoint) -> String {
        format!("{}{}", self.config.issuer, endpoint.path())
    }
}

/// Lets pages of any origin read an answer that is equal for all clients.
fn public(mut answer: Answer) -> Answer {
    let any = http::HeaderValue::from_static("*");
    answer.headers_mut().insert(http::header::ACCESS_CONTROL_ALLOW_ORIGIN, any);
    answer
}

fn not_found() -> Answer {
    let mut answer = Answer::new(String::new());
    *answer.status_mut() = StatusCode::NOT_FOUND;
    answer
}

/// Returns the mistakes in the keys of a configuration, which only their use would show otherwise.
pub(crate) fn findings(config: &vmcp_config::Config) -> Vec<Finding> {
    let server = config.incoming_auth.auth_server.as_ref();
    server.map(|server| SigningKeys::findings(&server.signing_keys)).unwrap_or_default()
}

/// Returns true if a request may have a body that the server reads.
pub fn reads_body(method: &Method) -> bool {
    *method == Method::POST
}

#[cfg(test)]
mod tests;
