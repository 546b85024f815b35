//! The guard of the admin port: a bearer token for the reports, and the host rules against DNS rebinding.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::{Choice, ConstantTimeEq as _};
use vmcp_config::Secret;

use super::Admin;
use crate::port::layers::host_rules::{GuardRefusal, HostGuard};

const UNAUTHORIZED_TEXT: &str = "this needs one of server.adminTokens as bearer token (of a bridge: --admin-token-file); \
    without a configured token it is served on loopback addresses only\n";

const SCRAPER_UNAUTHORIZED_TEXT: &str =
    "this needs one of server.metricsTokens or server.adminTokens as bearer token\n";

/// Admits operators to the reports.
#[derive(Clone)]
pub(super) struct AdminGuard {
    pub(super) admin: Admin,
    /// True if the port can be reached from this machine only.
    loopback: bool,
    /// The rules against DNS rebinding and foreign pages.
    host: Arc<HostGuard>,
}

impl AdminGuard {
    /// Creates the guard of a port that listens at `address`.
    pub(super) fn new(admin: Admin, address: SocketAddr) -> Self {
        let host = Arc::new(HostGuard::new(address, &[], &[]));
        Self { admin, loopback: address.ip().is_loopback(), host }
    }

    /// Returns true for a request with one of `server.adminTokens` or, if none is configured, on a loopback
    /// address.
    pub(super) fn admits(&self, headers: &HeaderMap) -> bool {
        let tokens = &self.admin.0.engine.snapshot().config.server.admin_tokens;
        if tokens.is_empty() {
            return self.loopback;
        }
        has_token(headers, tokens)
    }
}

/// Returns true for a request with one of `tokens`.
fn has_token(headers: &HeaderMap, tokens: &[Secret]) -> bool {
    bearer(headers).is_some_and(|token| is_one_of(token, tokens))
}

/// Middleware that refuses requests for a foreign host (DNS rebinding) and those of foreign pages. A request
/// with a token needs no such rule: no page has one.
pub(super) async fn from_known_host(
    State(guard): State<AdminGuard>,
    request: Request,
    next: Next,
) -> Response {
    let (version, uri, headers) = (request.version(), request.uri(), request.headers());
    let Err(refusal) = guard.host.check(version, uri, headers) else { return next.run(request).await };
    if has_token(headers, &guard.admin.0.engine.snapshot().config.server.admin_tokens) {
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
    (status, reason + "\n").into_response()
}

/// Middleware that passes requests of operators and answers 401 to all others.
pub(super) async fn admit(State(guard): State<AdminGuard>, request: Request, next: Next) -> Response {
    if guard.admits(request.headers()) {
        return next.run(request).await;
    }
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, challenge, UNAUTHORIZED_TEXT).into_response()
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
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, challenge, SCRAPER_UNAUTHORIZED_TEXT).into_response()
}

/// Returns the bearer token of a request.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

/// Compares in constant time: a token that is nearly right takes as long as any other of its length. All
/// tokens are compared, so the time does not tell which one matched.
fn is_one_of(token: &[u8], tokens: &[Secret]) -> bool {
    let same = tokens.iter().map(|known| known.expose().as_bytes().ct_eq(token));
    same.fold(Choice::from(0), |any, this| any | this).into()
}
