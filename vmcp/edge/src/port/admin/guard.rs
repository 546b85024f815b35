//! The guard of the admin port: a bearer token for the reports, and the rules against DNS rebinding and
//! foreign pages. Wrong tokens are logged, counted, recorded and slowed.

pub(in crate::port) mod audit;

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::{Choice, ConstantTimeEq as _};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use vmcp_access::rate_limit::LogLimit;
use vmcp_config::{ConsoleAccess, Secret};
use vmcp_console::links;

use super::Admin;
use crate::port::REFUSAL_LOG_INTERVAL;
use crate::port::admin_routes::CONSOLE_CALLBACK;
use crate::port::layers::host_rules::{GuardRefusal, HostGuard};
use crate::transport::request_headers::came_through_proxy;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::telemetry::metrics::RefusalLabels;

/// Time after which a wrong token is answered.
const WRONG_TOKEN_DELAY: Duration = Duration::from_millis(500);
/// Wrong tokens that are slowed at a time; further ones are answered with 429 at once.
const MAX_DELAYED: usize = 8;
/// The relation between a page and this port, as browsers tell it (Fetch Metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

const UNAUTHORIZED_TEXT: &str = "this needs one of server.adminTokens as bearer token (of a bridge: --admin-token-file); \
    without a configured token it is served on loopback addresses only, and not through a proxy\n";

const SCRAPER_UNAUTHORIZED_TEXT: &str =
    "this needs one of server.metricsTokens or server.adminTokens as bearer token\n";

/// Admits operators to the reports.
#[derive(Clone)]
pub(in crate::port) struct AdminGuard {
    pub(in crate::port) admin: Admin,
    /// True if the port can be reached from this machine only.
    pub(in crate::port) loopback: bool,
    /// The port's number.
    pub(in crate::port) port: u16,
    /// The rules against DNS rebinding and foreign pages.
    host: Arc<HostGuard>,
    /// Places for answers to wrong tokens, which wait for [`WRONG_TOKEN_DELAY`].
    delayed: Arc<Semaphore>,
    log: Arc<LogLimit>,
}

impl AdminGuard {
    /// Creates the guard of a port that listens at `address`.
    pub(in crate::port) fn new(admin: Admin, address: SocketAddr) -> Self {
        let host = Arc::new(HostGuard::new(address, &[], &[]));
        let delayed = Arc::new(Semaphore::new(MAX_DELAYED));
        let log = Arc::new(LogLimit::new(REFUSAL_LOG_INTERVAL));
        let (loopback, port) = (address.ip().is_loopback(), address.port());
        Self { admin, loopback, port, host, delayed, log }
    }

    /// Puts a request without a needed token, or with a wrong one, on record. Returns true for a wrong token.
    fn record(&self, request: &Request) -> bool {
        let is_wrong = request.headers().contains_key(header::AUTHORIZATION);
        self.record_refusal(&audit::sender(request), request.uri().path(), is_wrong);
        is_wrong
    }

    /// Puts a request without a needed token, or with a wrong one, on record.
    pub(in crate::port) fn record_refusal(&self, principal: &Principal, path: &str, is_wrong: bool) {
        let reason = if is_wrong { "wrong token" } else { "no token" };
        let labels = RefusalLabels { reason: "admin_token" };
        self.admin.0.engine.metrics().client_requests_refused.get_or_create(&labels).inc();
        audit::refused(&self.admin, principal, path, reason);
        if let Some(left_out) = self.log.admit((), Instant::now()) {
            let address = principal.address;
            tracing::warn!(?address, reason, left_out, "request refused at the admin port");
        }
    }

    /// Logs a sign-in to the console that failed at the provider. Anyone may begin one: these lines have the
    /// same limit as those of wrong tokens.
    pub(in crate::port) fn log_failed_sign_in(&self, error: &dyn Display) {
        if let Some(left_out) = self.log.admit((), Instant::now()) {
            tracing::warn!(%error, left_out, "a sign-in to the console failed at the provider");
        }
    }

    /// Waits as long as an answer to a wrong token takes. Returns false at once if too many others wait: a
    /// flood holds no connections that probes need.
    pub(in crate::port) async fn slow_down(&self) -> bool {
        let Ok(_waits) = self.delayed.try_acquire() else { return false };
        sleep(WRONG_TOKEN_DELAY).await;
        true
    }

    /// Puts a request without a needed token, or with a wrong one, on record, and answers it.
    pub(in crate::port) async fn turn_away(&self, request: Request, words: &'static str) -> Response {
        let is_wrong = self.record(&request);
        drop(request);
        self.refuse(is_wrong, words).await
    }

    /// Answers it.
    async fn refuse(&self, is_wrong: bool, words: &'static str) -> Response {
        if is_wrong && !self.slow_down().await {
            let later = [(header::RETRY_AFTER, "1")];
            return (StatusCode::TOO_MANY_REQUESTS, later, "too many wrong tokens\n").into_response();
        }
        (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], words).into_response()
    }

    /// Checks the sender of a request without a token: of all that a browser sends, only pages of this port
    /// itself may ask.
    fn check_page(&self, request: &Request) -> Result<(), GuardRefusal> {
        let (uri, headers) = (request.uri(), request.headers());
        match self.rules_behind_proxy(request) {
            Some(rules) => rules.check(request.version(), uri, headers)?,
            None => self.host.check(request.version(), uri, headers)?,
        }
        // The provider at which people sign in to the console sends the browser back from its own site: this
        // one page may be reached from there. Its handler takes nothing without the cookie of the attempt.
        if request.method() == Method::GET && uri.path() == CONSOLE_CALLBACK {
            return Ok(());
        }
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let foreign = |origin: &str| GuardRefusal::Origin(origin.to_ascii_lowercase());
        if let Some(site) = headers.get(&SEC_FETCH_SITE)
            && !matches!(site.as_bytes(), b"same-origin" | b"none")
        {
            return Err(foreign(text(&header::ORIGIN).unwrap_or("(a page of another origin)")));
        }
        let host = uri.authority().map(Authority::as_str).or(text(&header::HOST));
        match text(&header::ORIGIN) {
            Some(origin) if !is_of_host(origin, host) => Err(foreign(origin)),
            _ => Ok(()),
        }
    }

    /// Returns the rules for a page of the console at the address of `consoleSignIn.redirectUri`: a proxy may
    /// pass on this host and its port to a loopback address. `None` for every other path and host.
    fn rules_behind_proxy(&self, request: &Request) -> Option<HostGuard> {
        let (path, headers) = (request.uri().path(), request.headers());
        if path != "/console" && !path.starts_with(links::ROOT) {
            return None;
        }
        let server = &self.admin.0.engine.snapshot().config.server;
        let sign_in = server.console_sign_in.as_ref().filter(|_| server.console == ConsoleAccess::Oidc)?;
        let origin = sign_in.redirect_uri.origin().ascii_serialization();
        let (_, host) = origin.split_once("://")?;
        let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        let named = headers.get(header::HOST).map(HeaderValue::as_bytes);
        let is_of_redirect =
            named.into_iter().chain(authority).all(|given| given.eq_ignore_ascii_case(host.as_bytes()));
        is_of_redirect.then(|| self.host.with(host, &origin))
    }

    /// Returns true for a request with one of `server.adminTokens` or, if none is configured, of a program on
    /// this machine.
    pub(in crate::port) fn admits(&self, headers: &HeaderMap) -> bool {
        let tokens = &self.admin.0.engine.snapshot().config.server.admin_tokens;
        if tokens.is_empty() {
            return self.is_local(headers);
        }
        has_token(headers, tokens)
    }

    /// Returns true for a request on a loopback address that came through no proxy: the clients of a proxy or
    /// tunnel on this machine are anywhere.
    pub(in crate::port) fn is_local(&self, headers: &HeaderMap) -> bool {
        self.loopback && !came_through_proxy(headers)
    }
}

/// Returns true for a request with one of `tokens`.
fn has_token(headers: &HeaderMap, tokens: &[Secret]) -> bool {
    bearer(headers).is_some_and(|token| is_one_of(token, tokens))
}

/// Middleware that refuses requests for a foreign host (DNS rebinding) and those of foreign pages. A request
/// with a token needs no such rule: no page has one.
pub(in crate::port) async fn from_known_host(
    State(guard): State<AdminGuard>,
    request: Request,
    next: Next,
) -> Response {
    let Err(refusal) = guard.check_page(&request) else { return next.run(request).await };
    if has_token(request.headers(), &guard.admin.0.engine.snapshot().config.server.admin_tokens) {
        return next.run(request).await;
    }
    let (status, reason) = match refusal {
        GuardRefusal::Malformed => (StatusCode::BAD_REQUEST, refusal.to_string()),
        GuardRefusal::Host(host) => (
            StatusCode::FORBIDDEN,
            format!("host `{host}` is not served here; use a loopback name or a token"),
        ),
        GuardRefusal::Origin(origin) => {
            (StatusCode::FORBIDDEN, format!("pages of `{origin}` may not use the admin port without a token"))
        }
    };
    audit::refused(&guard.admin, &audit::sender(&request), request.uri().path(), &reason);
    (status, reason + "\n").into_response()
}

/// Returns true if an origin is that of the host which the request names, with its port.
fn is_of_host(origin: &str, host: Option<&str>) -> bool {
    let Some(("http" | "https", authority)) = origin.split_once("://") else { return false };
    host.is_some_and(|host| host.eq_ignore_ascii_case(authority))
}

/// Middleware that passes requests of operators and answers 401 to all others.
pub(super) async fn admit(State(guard): State<AdminGuard>, request: Request, next: Next) -> Response {
    if guard.admits(request.headers()) {
        return next.run(request).await;
    }
    guard.turn_away(request, UNAUTHORIZED_TEXT).await
}

/// Middleware of `/metrics`: once `server.metricsTokens` has a token, a request needs one of them, or one of
/// `server.adminTokens`.
pub(super) async fn admit_scraper(State(guard): State<AdminGuard>, request: Request, next: Next) -> Response {
    let config = guard.admin.0.engine.snapshot().config.clone();
    let (own, admin) = (&config.server.metrics_tokens, &config.server.admin_tokens);
    let headers = request.headers();
    if own.is_empty() || has_token(headers, own) || has_token(headers, admin) {
        return next.run(request).await;
    }
    guard.turn_away(request, SCRAPER_UNAUTHORIZED_TEXT).await
}

/// Returns the bearer token of a request.
pub(in crate::port) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

/// Compares in constant time: a token that is nearly right takes as long as any other of its length. All
/// tokens are compared, so the time does not tell which one matched.
pub(in crate::port) fn is_one_of(token: &[u8], tokens: &[Secret]) -> bool {
    let same = tokens.iter().map(|known| known.expose().as_bytes().ct_eq(token));
    same.fold(Choice::from(0), |any, this| any | this).into()
}
