//! The way of a person: request of the client, consent, one provider after the other, and back to the client
//! with a code.

mod browser;
mod pages;
pub(super) mod pending_logins;
pub(super) mod person;
pub(super) mod spent_states;

use std::time::Instant;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::StatusCode;
use http::header::SET_COOKIE;
use serde::{Deserialize, Serialize};

use self::browser::Browser;
use self::pending_logins::{Login, LoginId};
use self::person::Person;
use super::AuthServer;
use super::client::authorization_request::{AuthorizationRequest, RefusedAuthorization, client_answer};
use super::client::form::Form;
use super::client::is_local;
use super::endpoint::{Answer, Endpoint, EndpointRequest, redirect};
use super::oauth_error::{OAuthError, SERVER_ERROR, UNAVAILABLE, error};
use super::seals::Purpose;
use super::sign_in_event::SignInEvent;
use super::upstream_provider::{Brought, ProviderTokens, SignedIn, UpstreamError, UpstreamProvider};
use crate::auth_server::random::random;
use crate::clock::now;

/// Words for a person whose sign-in cannot go on.
const EXPIRED: &str = "This sign-in has expired, or was begun in another browser. Start again in the client.";
const DENIED: OAuthError = error("access_denied", "the person has not agreed");

/// A request that waits for consent.
#[derive(Serialize, Deserialize)]
struct Consent {
    #[serde(rename = "r")]
    request: AuthorizationRequest,
    #[serde(rename = "b")]
    browser: String,
}

/// The `state` of a request to a provider.
#[derive(Serialize, Deserialize)]
pub(super) struct State {
    #[serde(rename = "b")]
    browser: String,
    /// Name of the provider: its answer goes to its own token endpoint only.
    #[serde(rename = "u")]
    provider: String,
    #[serde(rename = "v")]
    verifier: String,
    #[serde(rename = "n")]
    nonce: String,
    #[serde(rename = "s")]
    pub(super) stage: Stage,
}

/// Stages of a sign-in.
#[derive(Serialize, Deserialize)]
pub(super) enum Stage {
    /// At the first provider: nothing is kept yet.
    #[serde(rename = "b")]
    Begin(AuthorizationRequest),
    /// At a further one.
    #[serde(rename = "c")]
    Continue(LoginRef),
}

/// A login, and the process that keeps it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LoginRef {
    #[serde(rename = "l")]
    pub(super) login: LoginId,
    #[serde(rename = "p")]
    pub(super) process: u64,
    /// Address of the process; empty without one.
    #[serde(rename = "h", default)]
    pub(super) home: String,
}

impl AuthServer {
    /// Answers a GET at the authorization endpoint: asks for consent.
    pub(super) fn authorize(&self, request: &EndpointRequest<'_>) -> Answer {
        let form = match Form::read(request.query.unwrap_or_default().as_bytes()) {
            Ok(form) => form,
            Err(error) => return pages::error(StatusCode::BAD_REQUEST, error.description),
        };
        let wanted = match AuthorizationRequest::read(&form, &self.config, &self.seals) {
            Ok(wanted) => wanted,
            Err(RefusedAuthorization::Page(words)) => return pages::error(StatusCode::BAD_REQUEST, words),
            Err(RefusedAuthorization::Redirect { redirect_uri, state, error }) => {
                let parameters = [("error", error.code), ("error_description", error.description)];
                let to = client_answer(&redirect_uri, state.as_deref(), &self.config.issuer, &parameters);
                let answer = match &to {
                    Some(to) if is_local(&redirect_uri) => redirect(to),
                    // Every client may register a URI: a link to this server must not lead elsewhere by
                    // itself (open redirector, RFC 9700, 4.11.2).
                    Some(to) => Some(pages::refused(error.description, &redirect_uri, to)),
                    None => None,
                };
                let answer = answer.unwrap_or_else(failed);
                return SignInEvent::failed("oauth.authorize", &error).on(answer);
            }
        };
        let browser =
            Browser::from_cookie(request.headers, &self.config.issuer_url).unwrap_or_else(Browser::new);
        let consent = Consent { request: wanted.clone(), browser: browser.digest() };
        let seconds = self.config.code_life.as_secs();
        let sealed = self.seals.seal(Purpose::Consent, &consent, now().saturating_add(seconds));
        let providers: Vec<_> = self.upstreams.iter().map(|upstream| upstream.config.name.as_str()).collect();
        let (action, resource) = (self.url_of(Endpoint::Authorize), self.config.resource.as_str());
        let mut page = pages::consent(&wanted, resource, &providers, &action, &sealed);
        // As long as the whole sign-in may take.
        if let Some(cookie) = browser.set_cookie(&self.config.issuer_url, 2 * seconds) {
            page.headers_mut().insert(SET_COOKIE, cookie);
        }
        page
    }

    /// Sends a person who agreed to the first provider.
    pub(super) async fn consented(&self, request: &EndpointRequest<'_>) -> Answer {
        let expired = || pages::error(StatusCode::BAD_REQUEST, EXPIRED);
        let Ok(form) = Form::read(request.body) else { return expired() };
        let consent = form.get("request").and_then(|sealed| self.seals.open(Purpose::Consent, sealed));
        let browser =
            Browser::from_cookie(request.headers, &self.config.issuer_url).map(|browser| browser.digest());
        let Some(Consent { request: wanted, browser: began }) = consent else { return expired() };
        if browser.as_ref() != Some(&began) {
            return expired();
        }
        if form.get("decision") != Some("allow") {
            return self.refuse(&wanted, &DENIED);
        }
        let Some(first) = self.upstreams.first() else { return failed() };
        match self.send_to(first, began, Stage::Begin(wanted.clone())).await {
            Ok(answer) => answer,
            Err(error) => self.told(&first.config.name, &error, &wanted),
        }
    }

    /// Takes up the answer of a provider.
    pub(super) async fn callback(&self, request: &EndpointRequest<'_>) -> Answer {
        let expired = || pages::error(StatusCode::BAD_REQUEST, EXPIRED);
        let Ok(form) = Form::read(request.query.unwrap_or_default().as_bytes()) else { return expired() };
        let Some(state) = self.state_of(&form) else { return expired() };
        let browser =
            Browser::from_cookie(request.headers, &self.config.issuer_url).map(|browser| browser.digest());
        if browser.as_ref() != Some(&state.browser) {
            return expired();
        }
        if !self.process.states.spend(&state.nonce, self.deadline()) {
            tracing::warn!(provider = state.provider, "an answer to a sign-in came twice");
            return expired();
        }
        let (wanted, signed_in_at, before) = match state.stage {
            Stage::Begin(wanted) => (wanted, now(), None),
            Stage::Continue(at) => match self.process.logins.take(at.login) {
                Some(login) => (login.request, login.signed_in_at, Some((login.person, login.tokens))),
                None => return expired(),
            },
        };
        let Some(upstream) = self.upstreams.iter().find(|known| known.config.name == state.provider) else {
            return self.refuse(&wanted, &SERVER_ERROR);
        };
        let code = match (form.get("code"), form.get("error")) {
            (Some(code), None) => code,
            (_, error) => {
                let denied = error == Some("access_denied");
                let error: String =
                    error.unwrap_or("no code").chars().take(64).filter(|c| !c.is_control()).collect();
                tracing::warn!(provider = state.provider, error, "sign-in refused by the provider");
                return self.refuse(&wanted, if denied { &DENIED } else { &SERVER_ERROR });
            }
        };
        let issuer = form.get("iss");
        if issuer.is_some_and(|issuer| self.names_another(upstream, issuer)) {
            let reason = "the answer is of another provider (iss)".to_owned();
            return self.told(&state.provider, &UpstreamError::Wrong(reason), &wanted);
        }
        let redirect_uri = self.redirect_uri(upstream);
        let brought = Brought {
            code,
            issuer,
            verifier: &state.verifier,
            nonce: &state.nonce,
            redirect_uri: &redirect_uri,
        };
        let signed_in = match upstream.sign_in(brought).await {
            Ok(signed_in) => signed_in,
            Err(error) => return self.told(&state.provider, &error, &wanted),
        };
        let Some((person, tokens)) = joined(before, signed_in) else {
            let reason = "it tells no subject, or claims of more than 8 KiB".to_owned();
            return self.told(&state.provider, &UpstreamError::Wrong(reason), &wanted);
        };
        self.go_on(
            Login { request: wanted, person, tokens, signed_in_at, until: self.deadline() },
            state.browser,
            request.home,
        )
        .await
    }

    /// Sends a person to the next provider, or back to the client with a code.
    async fn go_on(&self, login: Login, browser: String, home: &str) -> Answer {
        let has = |name: &str| login.tokens.iter().any(|tokens| tokens.provider == name);
        let next = self.upstreams.iter().find(|upstream| !has(&upstream.config.name));
        let wanted = login.request.clone();
        let (subject, client) = (login.person.subject.clone(), wanted.client_name.clone());
        let at = LoginRef {
            login: self.process.logins.keep(login),
            process: self.process.id,
            home: home.to_owned(),
        };
        if let Some(next) = next {
            return match self.send_to(next, browser, Stage::Continue(at)).await {
                Ok(answer) => answer,
                Err(error) => self.told(&next.config.name, &error, &wanted),
            };
        }
        tracing::info!(subject, client, "signed in");
        let expires = now().saturating_add(self.config.code_life.as_secs());
        let code = self.seals.seal(Purpose::Code, &at, expires);
        let to = wanted.answer(&self.config.issuer, &[("code", &code)]);
        let event = SignInEvent {
            subject: Some(subject),
            client: Some(client),
            ..SignInEvent::done("oauth.sign_in", "signed in")
        };
        event.on(to.as_ref().and_then(redirect).unwrap_or_else(failed))
    }

    async fn send_to(
        &self,
        upstream: &UpstreamProvider,
        browser: String,
        stage: Stage,
    ) -> Result<Answer, UpstreamError> {
        let secret = || BASE64_URL_SAFE_NO_PAD.encode(random::<32>());
        let (verifier, nonce) = (secret(), secret());
        let provider = upstream.config.name.clone();
        let carried = State { browser, provider, verifier, nonce, stage };
        let expires = now().saturating_add(self.config.code_life.as_secs());
        let sealed = self.seals.seal(Purpose::State, &carried, expires);
        let redirect_uri = self.redirect_uri(upstream);
        let url =
            upstream.authorization_url(&redirect_uri, &sealed, &carried.verifier, &carried.nonce).await?;
        redirect(&url).ok_or_else(|| UpstreamError::Wrong("its address cannot be sent".to_owned()))
    }

    /// Returns the state that a provider brought back.
    pub(super) fn state_of(&self, form: &Form) -> Option<State> {
        self.seals.open(Purpose::State, form.get("state")?)
    }

    /// Returns true if an answer names another provider than `asked` (mix-up). OpenID Connect compares the
    /// issuer as well; a plain OAuth 2.0 server lacks an issuer to compare.
    fn names_another(&self, asked: &UpstreamProvider, issuer: &str) -> bool {
        !asked.is_at(issuer) && self.upstreams.iter().any(|upstream| upstream.is_at(issuer))
    }

    fn redirect_uri(&self, upstream: &UpstreamProvider) -> String {
        let configured = upstream.config.redirect_uri.as_ref();
        configured.map_or_else(|| self.url_of(Endpoint::Callback), ToString::to_string)
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.config.code_life
    }

    /// Tells the operator why a sign-in failed, and the client that it did.
    fn told(&self, provider: &str, error: &UpstreamError, wanted: &AuthorizationRequest) -> Answer {
        tracing::warn!(provider, %error, "sign-in failed");
        let unreachable = matches!(error, UpstreamError::Unreachable(_));
        self.refuse(wanted, if unreachable { &UNAVAILABLE } else { &SERVER_ERROR })
    }

    fn refuse(&self, wanted: &AuthorizationRequest, error: &OAuthError) -> Answer {
        let parameters = [("error", error.code), ("error_description", error.description)];
        let to = wanted.answer(&self.config.issuer, &parameters);
        let client = Some(wanted.client_name.clone());
        let event = SignInEvent { client, ..SignInEvent::failed("oauth.sign_in", error) };
        event.on(to.as_ref().and_then(redirect).unwrap_or_else(failed))
    }
}

/// Adds the tokens of a provider to those from before. The first provider tells who the person is.
fn joined(
    before: Option<(Person, Vec<ProviderTokens>)>,
    signed_in: SignedIn,
) -> Option<(Person, Vec<ProviderTokens>)> {
    let SignedIn { tokens: new, subject, claims } = signed_in;
    let (person, mut tokens) =
        if let Some(before) = before { before } else { (Person::new(subject?, claims)?, Vec::new()) };
    tokens.push(new);
    Some((person, tokens))
}

/// The answer to a violated invariant of vmcp.
fn failed() -> Answer {
    pages::error(StatusCode::INTERNAL_SERVER_ERROR, "vmcp cannot do this now; its log says why.")
}
