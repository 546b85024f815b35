//! `/admin/sessions`: credentials and sessions that operators withdraw, and those in force; `/admin/logins`:
//! tokens that vmcp keeps for a client.

use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde::Deserialize;
use serde_json::json;
use vmcp_access::authentication::revocations::{RevocationError, RevokedCredentials};

use super::Admin;
use vmcp_engine::engine::replicas::ClientName;
use vmcp_engine::telemetry::tool_metrics::report::MetricsScope;

/// Time that an order holds, unless it says so.
const DEFAULT_LIFE: Duration = Duration::from_hours(24);

/// The query `?subject=NAME&issuer=URL&jti=ID&for=24h`. A misspelled `issuer` would mean all issuers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    subject: Option<String>,
    issuer: Option<String>,
    jti: Option<String>,
    #[serde(rename = "for")]
    life: Option<String>,
}

/// Answers `POST /admin/sessions/end`.
pub(super) async fn end(state: State<Admin>, query: Query<Order>) -> Response {
    give(&state, query.0, false)
}

/// Answers `POST /admin/sessions/allow`.
pub(super) async fn allow(state: State<Admin>, query: Query<Order>) -> Response {
    give(&state, query.0, true)
}

/// Answers `GET /admin/sessions/ended`.
pub(super) async fn list(State(Admin(inner)): State<Admin>) -> Response {
    Json(json!({ "orders": *inner.engine.revocations().all() })).into_response()
}

/// The query `?issuer=URL&subject=NAME&server=NAME&scope=own`.
#[derive(Deserialize)]
pub(super) struct LoginQuery {
    issuer: Option<String>,
    subject: Option<String>,
    server: Option<String>,
    scope: Option<MetricsScope>,
}

impl LoginQuery {
    fn client(&self) -> Option<ClientName> {
        let (issuer, subject) = (self.issuer.clone()?, self.subject.clone()?);
        Some(ClientName { issuer, subject })
    }
}

/// Answers `GET /admin/logins`.
pub(super) async fn logins(State(Admin(inner)): State<Admin>, Query(query): Query<LoginQuery>) -> Response {
    match query.client() {
        Some(client) => Json(inner.engine.replica_logins(&client)).into_response(),
        None => refused(StatusCode::BAD_REQUEST, "name a client: issuer=URL, subject=NAME"),
    }
}

/// Answers `POST /admin/logins/forget`.
pub(super) async fn forget_login(
    State(Admin(inner)): State<Admin>,
    Query(query): Query<LoginQuery>,
) -> Response {
    let (Some(client), Some(server)) = (query.client(), query.server) else {
        return refused(
            StatusCode::BAD_REQUEST,
            "name a client and a server: issuer=URL, subject=NAME, server=NAME",
        );
    };
    let only_here = query.scope == Some(MetricsScope::Own);
    match inner.engine.forget_login(&client, &server, only_here).await {
        Ok(forgotten) => Json(json!({ "forgotten": forgotten })).into_response(),
        Err(error) => refused(StatusCode::INSUFFICIENT_STORAGE, &error.to_string()),
    }
}

fn give(admin: &Admin, order: Order, is_lifted: bool) -> Response {
    let Order { subject, issuer, jti: token_id, life } = order;
    let life = match life.as_deref().map(humantime::parse_duration).transpose() {
        Ok(life) => life.unwrap_or(DEFAULT_LIFE),
        Err(_) => return refused(StatusCode::BAD_REQUEST, "write a time such as for=24h"),
    };
    match admin.0.engine.revoke(RevokedCredentials { issuer, subject, token_id }, life, is_lifted) {
        Ok(order) => Json(order).into_response(),
        Err(error) => {
            let status = match error {
                RevocationError::Nobody => StatusCode::BAD_REQUEST,
                RevocationError::Full => StatusCode::INSUFFICIENT_STORAGE,
            };
            refused(status, &error.to_string())
        }
    }
}

fn refused(status: StatusCode, error: &str) -> Response {
    (status, Json(json!({ "error": error }))).into_response()
}
