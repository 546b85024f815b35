//! Records of orders at the admin port: who gave them, and how they ended.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use sha2::{Digest as _, Sha256};

use super::bearer;
use crate::port::admin::Admin;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::telemetry::calls::{Action, ActionArea};

/// Hex digits of a token's SHA-256 that name it in events: they tell tokens apart and reveal none.
const FINGERPRINT: usize = 12;

/// The address of the operator, as an extension of a request; a request of the local socket has none.
#[derive(Debug, Clone, Copy)]
pub(in crate::port) struct OperatorAddress(pub(in crate::port) IpAddr);

/// Name of an operator whom the console let in, as an extension of a request.
#[derive(Debug, Clone)]
pub(in crate::port) struct OperatorName(pub(in crate::port) String);

/// Returns the sender of a request.
pub(in crate::port) fn sender(request: &Request) -> Principal {
    let address = request.extensions().get::<OperatorAddress>().map(|address| address.0);
    Principal { address, ..Principal::default() }
}

/// An order under way. Dropping it records the order, also where the client hangs up first.
struct OrderRecord {
    admin: Admin,
    principal: Principal,
    actor: String,
    name: String,
    query: Option<String>,
    /// Status of the answer; `None` before there is one.
    status: Option<StatusCode>,
}

impl Drop for OrderRecord {
    fn drop(&mut self) {
        let is_refused =
            self.status.is_some_and(|status| status.is_client_error() || status.is_server_error());
        self.admin.0.engine.call_observers().acted(&Action {
            area: ActionArea::Admin,
            name: &self.name,
            principal: &self.principal,
            actor: Some(&self.actor),
            target: self.query.as_deref(),
            result: self.status.as_ref().map_or(Action::CANCELLED, StatusCode::as_str),
            is_refused,
            session: None,
        });
    }
}

/// Middleware that records orders, which are all requests that change something.
pub(in crate::port) async fn record(State(admin): State<Admin>, request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return next.run(request).await;
    }
    let principal = sender(&request);
    let name_of_console = request.extensions().get::<OperatorName>().map(|name| name.0.clone());
    let actor = name_of_console.unwrap_or_else(|| operator(request.headers(), principal.address));
    let name = format!("{} {}", request.method(), request.uri().path());
    let query = request.uri().query().map(str::to_owned);
    let mut order = OrderRecord { admin, principal, actor, name, query, status: None };
    let response = next.run(request).await;
    order.status = Some(response.status());
    response
}

/// Records a request that is refused at the door.
pub(in crate::port) fn refused(admin: &Admin, principal: &Principal, path: &str, reason: &str) {
    admin.0.engine.call_observers().acted(&Action {
        result: reason,
        is_refused: true,
        target: Some(path),
        ..Action::of_client(ActionArea::Admin, "admin.refused", principal)
    });
}

/// Names an operator whose request was admitted.
pub(in crate::port) fn operator(headers: &HeaderMap, address: Option<IpAddr>) -> String {
    match (bearer(headers), address) {
        (_, None) => "a user of this machine, at the local socket".to_owned(),
        (Some(token), _) => token_name(token, TokenKind::Admin),
        (None, Some(_)) => "a user of this machine, without a token".to_owned(),
    }
}

/// The list of the configuration that has a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::port) enum TokenKind {
    /// `server.adminTokens`.
    Admin,
    /// `server.viewerTokens`.
    Viewer,
}

/// Names a token without revealing it.
pub(in crate::port) fn token_name(token: &[u8], kind: TokenKind) -> String {
    let digest = hex::encode(Sha256::digest(token));
    let kind = match kind {
        TokenKind::Admin => "admin token",
        TokenKind::Viewer => "viewer token",
    };
    format!("{kind} {}", digest.get(..FINGERPRINT).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_named_by_its_list_and_its_digest() {
        let name = token_name(b"a token of enough characters", TokenKind::Admin);
        let (kind, digest) = name.rsplit_once(' ').unwrap();
        assert_eq!((kind, digest.len()), ("admin token", FINGERPRINT));
        let viewer = token_name(b"a token of enough characters", TokenKind::Viewer);
        assert_eq!(viewer, format!("viewer token {digest}"));
    }
}
