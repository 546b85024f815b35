//! The door of the console: `server.console`, the tokens of operators and viewers, and the cookie of a person
//! who has signed in with one of them, or at the provider.
//!
//! `token` and [`oidc`] sign people in, `cookies` sets their cookies, `headers` reads them, `wanted_page`
//! bounds the page to which people go on, and [`form_check`] compares the CSRF tokens of forms.

mod cookies;
pub(super) mod form_check;
mod headers;
pub(in crate::port) mod oidc;
pub(super) mod token;
mod wanted_page;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Redirect, Response};
use parking_lot::Mutex;
use serde_json::Map;
use tokio::sync::Semaphore;
use vmcp_access::auth_server::{ConsoleRole, ConsoleSignIn};
use vmcp_config::{ConsoleAccess, Secret, Server, UpstreamKind};
use vmcp_console::frame::Frame;
use vmcp_console::links::ROOT;
use vmcp_console::pages::sign_in::{self, SignInChoices};
use vmcp_engine::access::identity::{Identity, Principal};
use vmcp_engine::engine::Engine;
use vmcp_engine::random::{now, random};
use vmcp_engine::telemetry::calls::{Action, ActionArea};

use self::headers::cookies;
use self::wanted_page::is_page;
use super::session_key::{CookiePerson, SESSION_SECONDS, SessionKeys, name_of};
use super::trying::waiting_calls::WaitingCalls;
use crate::port::admin::Admin;
use crate::port::admin::guard::audit::TokenKind;
use crate::port::admin::guard::{AdminGuard, audit, bearer, is_one_of};

/// Forms to sign in that are read at a time; further ones are answered with 429. Their senders are unknown:
/// they must leave connections to probes.
const MAX_ARRIVING_SIGN_INS: usize = 8;
/// Sign-ins that ask the provider at a time; further ones are answered with 429. Forms with a token have
/// places of their own: a slow provider locks no holder of a token out.
const MAX_ASKING_SIGN_INS: usize = 8;

/// The door of the console, and the state of its routes; cheap to clone.
#[derive(Clone)]
pub(super) struct ConsoleDoor(Arc<DoorState>);

struct DoorState {
    guard: AdminGuard,
    /// Random secret of this process, for sessions where no key is configured.
    own_secret: [u8; 32],
    /// Places for forms to sign in that are being read.
    arriving: Semaphore,
    /// Places for sign-ins that ask the provider.
    asking: Semaphore,
    /// The provider of `consoleSignIn`, from the first sign-in on. With another `server.console`, the
    /// first request drops it.
    provider: Mutex<Option<Arc<ConsoleSignIn>>>,
    /// Tried calls whose servers wait for an answer.
    waiting: Arc<WaitingCalls>,
}

/// A person who was let in, as an extension of the request.
#[derive(Debug, Clone, Default)]
pub(super) struct Visitor {
    /// The cookie, or empty where a person came without.
    session: String,
    /// True if the person reads, and gives no orders.
    is_viewer: bool,
    /// True if a token or the provider tells the person from others; false where the console is open.
    is_proved: bool,
    /// Subject at the provider at which the person signed in; `None` for a token, and without a sign-in.
    subject: Option<String>,
}

impl Visitor {
    /// Returns the subject at the provider at which the person signed in.
    pub(super) fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// Returns true if the person reads, and gives no orders.
    pub(super) fn is_viewer(&self) -> bool {
        self.is_viewer
    }

    /// Returns true if the person has signed in, or sent a token.
    pub(super) fn is_proved(&self) -> bool {
        self.is_proved
    }

    /// Returns the cookie of the session; empty where the person came without.
    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// A viewer who signed in at the provider.
    #[cfg(test)]
    pub(super) fn person(subject: &str) -> Visitor {
        Visitor {
            session: format!("cookie of {subject}"),
            is_viewer: true,
            is_proved: true,
            subject: Some(subject.to_owned()),
        }
    }
}

impl ConsoleDoor {
    pub(super) fn new(guard: AdminGuard) -> ConsoleDoor {
        let arriving = Semaphore::new(MAX_ARRIVING_SIGN_INS);
        let asking = Semaphore::new(MAX_ASKING_SIGN_INS);
        let (own_secret, provider, waiting) = (random(), Mutex::default(), Arc::default());
        ConsoleDoor(Arc::new(DoorState { guard, own_secret, arriving, asking, provider, waiting }))
    }

    /// Returns the state of the admin port.
    pub(super) fn admin(&self) -> &Admin {
        &self.0.guard.admin
    }

    /// Returns the keys of sessions of the configuration in force.
    fn keys(&self) -> SessionKeys {
        SessionKeys::new(&self.engine().snapshot().config.server.session_keys, &self.0.own_secret)
    }

    /// Returns the engine.
    pub(super) fn engine(&self) -> &Engine {
        &self.admin().0.engine
    }

    /// Returns the tried calls whose servers wait for an answer.
    pub(super) fn waiting_calls(&self) -> &Arc<WaitingCalls> {
        &self.0.waiting
    }

    /// Returns what all pages of a visitor share.
    pub(super) fn frame(&self, visitor: &Visitor) -> Frame {
        Frame {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            form_token: self.keys().form_token(&visitor.session),
            is_signed_in: !visitor.session.is_empty(),
            is_viewer: visitor.is_viewer,
            notice: None,
        }
    }

    /// Returns true if a form was made for this visitor.
    pub(super) fn has_form_token(&self, visitor: &Visitor, given: &str) -> bool {
        self.keys().is_form_token(&visitor.session, given)
    }

    /// Returns the visitor of a request and the operator's name for audit events; `None`: a token is wanted.
    fn visitor(&self, request: &Request) -> Option<(Visitor, String)> {
        let server = &self.engine().snapshot().config.server;
        let (headers, address) = (request.headers(), audit::sender(request).address);
        let is_open = server.admin_tokens.is_empty()
            && server.console == ConsoleAccess::Loopback
            && self.0.guard.is_local(headers);
        let token = bearer(headers).and_then(|token| Some((token, self.kind_of(token)?)));
        if is_open || matches!(token, Some((_, TokenKind::Admin))) {
            let visitor = Visitor { is_proved: !is_open, ..Visitor::default() };
            return Some((visitor, audit::operator(headers, address)));
        }
        if let Some((token, kind)) = token {
            let visitor = Visitor { is_viewer: true, is_proved: true, ..Visitor::default() };
            return Some((visitor, audit::token_name(token, kind)));
        }
        let name = self.cookie_name();
        cookies(headers, &name).find_map(|cookie| self.person(cookie))
    }

    /// Returns the kind of a token; `None` for an empty or unknown one.
    fn kind_of(&self, token: &[u8]) -> Option<TokenKind> {
        let server = &self.engine().snapshot().config.server;
        let found = token_lists(server).into_iter().find(|(tokens, _)| is_one_of(token, tokens));
        found.map(|(_, kind)| kind).filter(|_| !token.is_empty())
    }

    /// Returns the visitor of a cookie, and the name for audit events.
    fn person(&self, cookie: &str) -> Option<(Visitor, String)> {
        if self.engine().has_ended_console_session(name_of(cookie)) {
            return None;
        }
        let session = cookie.to_owned();
        let server = &self.engine().snapshot().config.server;
        for (tokens, kind) in token_lists(server) {
            if let Some(token) = self.keys().token_of(cookie, tokens, now()) {
                let name = audit::token_name(token.expose().as_bytes(), kind);
                let is_viewer = kind == TokenKind::Viewer;
                return Some((Visitor { session, is_viewer, is_proved: true, subject: None }, name));
            }
        }
        let config = server.console_sign_in.as_ref().filter(|_| server.console == ConsoleAccess::Oidc)?;
        let CookiePerson { subject, role } = self.keys().person_of(cookie, config, now())?;
        if self.is_withdrawn(config, &subject, cookie) {
            return None;
        }
        let (name, is_viewer) = (oidc::person_name(&subject), role == ConsoleRole::Viewer);
        Some((Visitor { session, is_viewer, is_proved: true, subject: Some(subject) }, name))
    }

    /// Returns true if an operator has ended the sign-in of a person's cookie, whose end is signed.
    fn is_withdrawn(&self, config: &vmcp_config::ConsoleSignIn, subject: &str, cookie: &str) -> bool {
        let began = end_of(cookie).saturating_sub(SESSION_SECONDS);
        let issuer = match &config.provider.kind {
            UpstreamKind::Oidc { issuer, .. } => issuer.issuer.as_str(),
            UpstreamKind::OAuth2 { .. } => "",
        };
        let claims = Map::from_iter([("iat".to_owned(), began.into())]);
        self.engine().revocations().refuses(&Identity::known(issuer, subject, claims, None))
    }

    /// Returns the provider of the configuration in force; `None` unless `server.console` is `oidc`.
    fn provider(&self) -> Option<Arc<ConsoleSignIn>> {
        let server = &self.engine().snapshot().config.server;
        let config = server.console_sign_in.as_ref().filter(|_| server.console == ConsoleAccess::Oidc)?;
        let mut kept = self.0.provider.lock();
        if let Some(kept) = kept.as_ref().filter(|kept| kept.config() == config) {
            return Some(Arc::clone(kept));
        }
        let started = Arc::new(ConsoleSignIn::start(Arc::clone(config)));
        *kept = Some(Arc::clone(&started));
        Some(started)
    }

    /// Drops the provider, whose keys are fetched again and again, once `server.console` is not `oidc`.
    fn drop_unused_provider(&self) {
        if self.engine().snapshot().config.server.console != ConsoleAccess::Oidc {
            *self.0.provider.lock() = None;
        }
    }

    /// Records a sign-in for audit; `actor` is the name of the token or of the person.
    fn record_sign_in(&self, sender: &Principal, actor: Option<&str>, result: &str, is_refused: bool) {
        self.engine().call_observers().acted(&Action {
            actor,
            result,
            is_refused,
            ..Action::of_client(ActionArea::Admin, "console.sign_in", sender)
        });
    }

    /// Returns the ways to sign in.
    fn choices(&self) -> SignInChoices {
        let server = &self.engine().snapshot().config.server;
        SignInChoices {
            has_tokens: !server.admin_tokens.is_empty() || !server.viewer_tokens.is_empty(),
            has_provider: server.console == ConsoleAccess::Oidc,
        }
    }
}

/// Returns the end of a cookie's session, in seconds since the Unix epoch; it is signed.
fn end_of(cookie: &str) -> u64 {
    cookie.split('.').next().and_then(|end| end.parse().ok()).unwrap_or_default()
}

/// Returns the lists of tokens that open the console, each with its kind.
fn token_lists(server: &Server) -> [(&[Secret], TokenKind); 2] {
    [(&server.admin_tokens, TokenKind::Admin), (&server.viewer_tokens, TokenKind::Viewer)]
}

/// Returns true if the console is served to the sender of a request: it is on, and its setting admits this
/// port's address. A port on all addresses serves `loopback` to senders on loopback, such as a forwarded port
/// of a pod, if they have to sign in.
pub(in crate::port) fn is_served(guard: &AdminGuard, request: &Request) -> bool {
    let server = &guard.admin.0.engine.snapshot().config.server;
    let is_local =
        || audit::sender(request).address.is_some_and(|address| address.to_canonical().is_loopback());
    match server.console {
        ConsoleAccess::Off => false,
        ConsoleAccess::Loopback => guard.loopback || !server.admin_tokens.is_empty() && is_local(),
        ConsoleAccess::Tokens | ConsoleAccess::Oidc => true,
    }
}

/// Middleware that answers 404 while the console is not served.
pub(super) async fn only_if_served(
    State(door): State<ConsoleDoor>,
    request: Request,
    next: Next,
) -> Response {
    door.drop_unused_provider();
    if is_served(&door.0.guard, &request) {
        return next.run(request).await;
    }
    let words = "the web console is not served here: server.console is `off`, or `loopback` and you are not on \
                 this machine (on a port that is not on loopback, `loopback` needs server.adminTokens); `tokens` and \
                 `oidc` serve it to people who sign in\n";
    (StatusCode::NOT_FOUND, words).into_response()
}

/// Middleware that passes requests of operators; all others get the form to sign in, with status 401. A wrong
/// token is recorded and slowed. A request without a token is recorded if it is an order; for a page, it is a
/// person's first visit.
pub(super) async fn admit(State(door): State<ConsoleDoor>, mut request: Request, next: Next) -> Response {
    if let Some((visitor, name)) = door.visitor(&request) {
        request.extensions_mut().insert(visitor);
        request.extensions_mut().insert(audit::OperatorName(name));
        return next.run(request).await;
    }
    let is_wrong = request.headers().contains_key(header::AUTHORIZATION);
    let is_order = !matches!(*request.method(), Method::GET | Method::HEAD);
    let had_session = cookies(request.headers(), &door.cookie_name()).any(|value| !value.is_empty());
    if is_wrong || is_order {
        door.0.guard.record_refusal(&audit::sender(&request), request.uri().path(), is_wrong);
    }
    // A person who signs in goes on to the page that they wanted. An order is not repeated.
    let wanted = request.uri().path_and_query().and_then(|wanted| wanted.as_str().strip_prefix(ROOT));
    let wanted = wanted.filter(|wanted| !is_order && is_page(wanted)).map(str::to_owned);
    drop(request);
    if is_wrong && !door.0.guard.slow_down().await {
        return too_many("too many wrong tokens\n");
    }
    let message = match (had_session, is_order) {
        (true, true) => Some("Your session has ended, and the order was not carried out. Sign in again."),
        (true, false) => Some("Your session has ended. Sign in again."),
        (false, _) => None,
    };
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    let page = Html(sign_in::sign_in(&door.choices(), message, wanted.as_deref()));
    (StatusCode::UNAUTHORIZED, challenge, page).into_response()
}

/// Middleware that refuses the orders of viewers.
pub(super) async fn only_operators(request: Request, next: Next) -> Response {
    match request.extensions().get::<Visitor>() {
        Some(visitor) if !visitor.is_viewer => next.run(request).await,
        _ => (StatusCode::FORBIDDEN, "your role is viewer: orders are for operators\n").into_response(),
    }
}

/// Answers `GET /console`, and `GET /console/sign-in`: the address of the form after a wrong token.
pub(super) async fn to_root() -> Redirect {
    Redirect::to(ROOT)
}

fn too_many(words: &'static str) -> Response {
    (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "1")], words).into_response()
}

#[cfg(test)]
mod tests;
