//! The token endpoint: codes and refresh tokens become access tokens.

pub(super) mod families;
pub(super) mod grant;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::StatusCode;
use serde_json::{Map, Value, json};

use self::families::{Family, Use};
use self::grant::Grant;
use super::AuthServer;
use super::client::authorization_request::{check_resources, digest};
use super::client::form::Form;
use super::client::registration::Client;
use super::endpoint::{Answer, EndpointRequest, failure, json};
use super::oauth_error::{OAuthError, SERVER_ERROR, UNAVAILABLE, error};
use super::seals::Purpose;
use super::sign_in::LoginRef;
use super::sign_in::person::Person;
use super::sign_in_event::SignInEvent;
use super::upstream_provider::{ProviderTokens, RenewedTokens, UpstreamError};
use crate::auth_server::random::random;
use crate::clock::now;
use crate::identity::Identity;

/// Name of the sealed claim with the tokens of providers.
pub(crate) const UPSTREAM_CLAIM: &str = "vmcp_upstream";
/// Seconds for which an access token must be good at least.
const MIN_LIFE_SECS: u64 = 5;
/// Bytes of an access token: it travels in a header with each request. The client port refuses one beyond 32
/// KiB; many proxies refuse headers of 8 or 16.
const MAX_TOKEN_BYTES: usize = 24 << 10;
const BAD_CODE: OAuthError =
    error("invalid_grant", "the code is not valid: expired, used before, or not of this client");
const BAD_REFRESH: OAuthError = error("invalid_grant", "the refresh token is not valid; sign in again");
const WITHDRAWN: OAuthError = error("invalid_grant", "the sign-in was withdrawn; sign in again");
const SIGN_IN: OAuthError = error("invalid_grant", "a provider asks for a new sign-in");

/// A code, or a refresh token, that was used before.
const USED_CODE: OAuthError =
    error("invalid_grant", "the code was used before; the tokens that it gave are renewed no more");
const USED_REFRESH: OAuthError = error("invalid_grant", "the refresh token was used before; sign in again");
/// Step of a grant.
const TOKEN: &str = "oauth.token";

/// Tokens that were granted.
struct Granted {
    answer: String,
    subject: String,
    result: &'static str,
}

impl Granted {
    fn of(
        answer: Result<String, OAuthError>,
        subject: String,
        result: &'static str,
    ) -> Result<Granted, NotGranted> {
        match answer {
            Ok(answer) => Ok(Granted { answer, subject, result }),
            Err(error) => Err(NotGranted { error, subject: Some(subject) }),
        }
    }
}

/// The reason why tokens were not granted, and the person, once known.
struct NotGranted {
    error: OAuthError,
    subject: Option<String>,
}

impl From<OAuthError> for NotGranted {
    fn from(error: OAuthError) -> NotGranted {
        NotGranted { error, subject: None }
    }
}

impl AuthServer {
    /// Answers at the token endpoint.
    pub(super) async fn token(&self, request: &EndpointRequest<'_>) -> Answer {
        match self.exchange(request).await {
            Ok(Granted { answer, subject, result }) => {
                let event = SignInEvent { subject: Some(subject), ..SignInEvent::done(TOKEN, result) };
                event.on(json(StatusCode::OK, answer))
            }
            Err(NotGranted { error, subject }) => {
                SignInEvent { subject, ..SignInEvent::failed(TOKEN, &error) }.on(failure(&error))
            }
        }
    }

    async fn exchange(&self, request: &EndpointRequest<'_>) -> Result<Granted, NotGranted> {
        let form = Form::read(request.body)?;
        let id = form.get("client_id").ok_or(error("invalid_client", "client_id is missing"))?;
        if Client::from_id(id, &self.seals).is_none() {
            return Err(error("invalid_client", "this client is not registered here; register again").into());
        }
        check_resources(&form, &self.config)?;
        match form.get("grant_type") {
            Some("authorization_code") => self.by_code(&form, &digest(id)).await,
            Some("refresh_token") => self.by_refresh_token(&form, &digest(id)).await,
            Some(_) => Err(error("unsupported_grant_type", "use authorization_code or refresh_token").into()),
            None => Err(error("invalid_request", "grant_type is missing").into()),
        }
    }

    /// Exchanges a code. Whatever does not fit, the code is spent: it was in other hands.
    async fn by_code(&self, form: &Form, client: &str) -> Result<Granted, NotGranted> {
        let at = self.code_of(form).ok_or(BAD_CODE)?;
        let family = self.process.families.get(at.login.bytes());
        let mut family = family.lock().await;
        if family.check(0) != Use::First {
            tracing::warn!(
                "an authorization code came a second time; the tokens that it gave are renewed no more"
            );
            return Err(USED_CODE.into());
        }
        let login = self.process.logins.take(at.login).ok_or(BAD_CODE)?;
        family.used(0);
        let request = &login.request;
        let verifier = form.get("code_verifier").unwrap_or_default();
        let same_uri = form.get("redirect_uri").is_none_or(|uri| uri == request.redirect_uri);
        if request.client != client || !request.is_verified_by(verifier) || !same_uri {
            family.end();
            return Err(NotGranted { error: BAD_CODE, subject: Some(login.person.subject) });
        }
        let grant = Grant {
            family: at.login.bytes(),
            generation: 0,
            client: client.to_owned(),
            scope: request.scope.clone(),
            signed_in: login.signed_in_at,
            person: login.person,
            tokens: login.tokens,
        };
        let subject = grant.person.subject.clone();
        let answer = self.issue(grant, None).await;
        Granted::of(answer, subject, "tokens for a code")
    }

    /// Exchanges a refresh token (rotation).
    async fn by_refresh_token(&self, form: &Form, client: &str) -> Result<Granted, NotGranted> {
        let token = form.get("refresh_token").ok_or(error("invalid_request", "refresh_token is missing"))?;
        let grant: Grant = self.seals.open(Purpose::Refresh, token).ok_or(BAD_REFRESH)?;
        let subject = grant.person.subject.clone();
        if grant.client != client {
            return Err(NotGranted { error: BAD_REFRESH, subject: Some(subject) });
        }
        let (id, generation) = (grant.family, grant.generation);
        let family = self.process.families.get(id);
        let mut family = family.lock().await;
        if self.is_withdrawn(&grant) {
            // The order ends some day, and the token may live longer.
            family.end();
            return Err(NotGranted { error: WITHDRAWN, subject: Some(subject) });
        }
        if let Some(answer) = self.process.families.repeated(id, generation) {
            return Granted::of(Ok(answer), subject, "the tokens of a moment ago, again");
        }
        let failed = |error| NotGranted { error, subject: Some(subject.clone()) };
        check(&mut family, &grant).map_err(failed)?;
        let answer = self.issue(grant, form.get("scope")).await.map_err(failed)?;
        family.used(generation);
        self.process.families.answered(id, generation, &answer);
        Granted::of(Ok(answer), subject, "tokens for a refresh token")
    }

    /// Returns true if the sign-in of a grant was withdrawn: its tokens would be younger than the order, and
    /// so let in.
    fn is_withdrawn(&self, grant: &Grant) -> bool {
        let claims = Map::from_iter([("iat".to_owned(), Value::from(grant.signed_in))]);
        self.revocations.refuses(&Identity::known(&self.config.issuer, &grant.person.subject, claims, None))
    }

    /// Issues an access token, and a refresh token of the next generation. `scope` narrows the access token.
    async fn issue(&self, mut grant: Grant, scope: Option<&str>) -> Result<String, OAuthError> {
        self.renew_tokens(&mut grant).await?;
        // After the wait for providers: an order that comes meanwhile is older than the new token.
        if self.is_withdrawn(&grant) {
            return Err(WITHDRAWN);
        }
        let config = &self.config;
        let (now, expires) = (now(), grant.expires(config, now()));
        if expires < now.saturating_add(MIN_LIFE_SECS) {
            return Err(SIGN_IN);
        }
        let asked: Option<Vec<_>> = scope.map(|scope| scope.split_ascii_whitespace().collect());
        // Scopes that the configuration offers no longer end with the next token.
        let is_offered = |scope: &str| config.scopes.iter().any(|offered| offered == scope);
        let scopes = grant
            .scope
            .split(' ')
            .filter(|scope| is_offered(scope) && asked.as_ref().is_none_or(|asked| asked.contains(scope)));
        let scope = scopes.collect::<Vec<_>>().join(" ");
        let mut claims = grant.person.claims.clone();
        let upstream = grant.needed_tokens(config);
        let own: [(&str, Value); 8] = [
            ("iss", config.issuer.as_str().into()),
            ("sub", grant.person.subject.as_str().into()),
            ("aud", config.audience.as_str().into()),
            ("exp", expires.into()),
            ("iat", now.into()),
            ("jti", BASE64_URL_SAFE_NO_PAD.encode(random::<16>()).into()),
            ("client_id", grant.client.as_str().into()),
            ("scope", scope.as_str().into()),
        ];
        claims.extend(own.map(|(name, value)| (name.to_owned(), value)));
        claims.remove(UPSTREAM_CLAIM);
        if !upstream.is_empty() {
            let sealed = self.seals.seal(Purpose::Upstream, &(&grant.person.subject, upstream), expires);
            claims.insert(UPSTREAM_CLAIM.to_owned(), sealed.into());
        }
        let access = self.keys.sign(&Value::Object(claims)).ok_or(SERVER_ERROR)?;
        if access.len() > MAX_TOKEN_BYTES {
            tracing::error!(
                bytes = access.len(),
                "the tokens of the providers are too large for one header; ask for fewer claims or providers"
            );
            return Err(SERVER_ERROR);
        }
        grant.generation = grant.generation.saturating_add(1);
        let refresh_until = now.saturating_add(config.refresh_life.as_secs());
        let refresh = self.seals.seal(Purpose::Refresh, &grant, refresh_until);
        let answer = json!({
            "access_token": access, "token_type": "Bearer", "expires_in": expires - now,
            "refresh_token": refresh, "scope": scope,
        });
        Ok(answer.to_string())
    }

    /// Renews the tokens of providers that end before half of an access token's life. What no backend needs
    /// may fail. The first provider vouches for the person, and is asked at each refresh: its refusal ends
    /// the sign-in, and its new ID token tells the person's present claims.
    async fn renew_tokens(&self, grant: &mut Grant) -> Result<(), OAuthError> {
        let config = &self.config;
        let first = self.upstreams.first().map(|first| first.config.name.as_str());
        // The first provider has told the subject. Its removal, or another first provider, ends the sign-in.
        if first.is_none() || grant.tokens.first().map(|tokens| tokens.provider.as_str()) != first {
            return Err(SIGN_IN);
        }
        grant.tokens.retain(|tokens| config.upstream(&tokens.provider).is_some());
        let needed = config.access_tokens_of.iter().chain(&config.id_tokens_of);
        // A provider that was added since: its sign-in comes with the next one.
        let has = |name: &String| grant.tokens.iter().any(|tokens| tokens.provider == *name);
        if !needed.into_iter().all(has) {
            return Err(SIGN_IN);
        }
        // With a code, the person has signed in a moment ago.
        let is_renewal = grant.generation > 0;
        for tokens in &mut grant.tokens {
            let vouches = first == Some(tokens.provider.as_str());
            let vouches_again = is_renewal && vouches && tokens.refresh.is_some();
            let ends_soon = tokens.life().is_some_and(|life| life < config.access_life.as_secs() / 2);
            if !ends_soon && !vouches_again {
                continue;
            }
            let ends_now = tokens.life().is_some_and(|life| life < MIN_LIFE_SECS);
            match self.renewed(tokens).await {
                Ok(RenewedTokens { tokens: renewed, person }) => {
                    *tokens = renewed;
                    if let Some((subject, claims)) = person.filter(|_| vouches) {
                        grant.person = same_person(&grant.person, subject, claims).ok_or(SIGN_IN)?;
                    }
                }
                // A carried token that is still good is used until its end, which ends the access token too.
                Err(UpstreamError::Refused(_)) if vouches_again && !tokens.is_carried(config) => {
                    return Err(SIGN_IN);
                }
                Err(_) if !ends_now || !tokens.is_carried(config) => {}
                Err(UpstreamError::Unreachable(_)) => return Err(UNAVAILABLE),
                Err(_) => return Err(SIGN_IN),
            }
        }
        Ok(())
    }

    async fn renewed(&self, tokens: &ProviderTokens) -> Result<RenewedTokens, UpstreamError> {
        let upstream = self.upstreams.iter().find(|upstream| upstream.config.name == tokens.provider);
        let upstream = upstream.ok_or_else(|| UpstreamError::Refused("it is gone".to_owned()))?;
        let renewed = upstream.renew(tokens).await;
        if let Err(error) = &renewed
            && tokens.refresh.is_some()
        {
            tracing::warn!(provider = tokens.provider, %error, "a token could not be renewed");
        }
        renewed
    }

    /// Returns the login of a code.
    pub(super) fn code_of(&self, form: &Form) -> Option<LoginRef> {
        self.seals.open(Purpose::Code, form.get("code")?)
    }
}

/// Returns a person with the claims that the provider tells now; `None` if the provider names another
/// subject, or the claims are too large.
fn same_person(before: &Person, subject: Option<String>, claims: Map<String, Value>) -> Option<Person> {
    let subject = subject.filter(|subject| *subject == before.subject);
    if subject.is_none() {
        tracing::warn!(subject = before.subject, "a provider renewed the tokens of another subject");
    }
    Person::new(subject?, claims)
}

/// Refuses a refresh token that was used before, and all of its family.
fn check(family: &mut Family, grant: &Grant) -> Result<(), OAuthError> {
    match family.check(grant.generation) {
        Use::First => Ok(()),
        Use::Reused => {
            let subject = &grant.person.subject;
            tracing::warn!(subject, "a refresh token came a second time; its person has to sign in again");
            Err(USED_REFRESH)
        }
        Use::Ended => Err(BAD_REFRESH),
    }
}
