//! `/admin/tools/changes`, `/admin/tools/trusted` and `/admin/tools/approve`: changed and trusted definitions
//! of tools, and the approval of changed ones.

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Json, Response};
use serde::Deserialize;
use serde_json::json;

use super::Admin;

/// The query `?backend=NAME&tool=NAME`.
#[derive(Deserialize)]
pub(super) struct ChangedToolFilter {
    backend: Option<String>,
    tool: Option<String>,
}

/// The query `?backend=NAME&tool=NAME&hash=HASH`. A misspelled `hash` would approve any definition.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Approval {
    backend: Option<String>,
    tool: Option<String>,
    /// The definition that was read: no later one is approved.
    hash: Option<String>,
}

/// Answers `GET /admin/tools/changes`.
pub(super) async fn show(
    State(Admin(inner)): State<Admin>,
    Query(filter): Query<ChangedToolFilter>,
) -> Response {
    match inner.engine.changed_tools().await {
        Ok(mut changes) => {
            let is =
                |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
            changes.retain(|change| is(&filter.backend, &change.server) && is(&filter.tool, &change.tool));
            Json(json!({ "changes": changes })).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// Answers `GET /admin/tools/trusted`.
pub(super) async fn trusted(State(Admin(inner)): State<Admin>) -> Response {
    let text = inner.engine.trust_report().text.clone();
    if text.is_empty() {
        let text = "no backend is under `onToolChange: Quarantine`\n";
        return (StatusCode::NOT_FOUND, text).into_response();
    }
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}

/// Answers `POST /admin/tools/approve`.
pub(super) async fn approve(State(Admin(inner)): State<Admin>, Query(approval): Query<Approval>) -> Response {
    let Approval { backend: Some(backend), tool: Some(tool), hash } = approval else {
        return (StatusCode::BAD_REQUEST, "name a tool: ?backend=NAME&tool=NAME\n").into_response();
    };
    match inner.engine.approve_tool(&backend, &tool, hash.as_deref()).await {
        Ok(true) => (StatusCode::OK, "approved\n").into_response(),
        Ok(false) if hash.is_some() => {
            let text =
                format!("no definition of `{tool}` of `{backend}` with this hash waits for approval\n");
            (StatusCode::CONFLICT, text).into_response()
        }
        Ok(false) => {
            let text = format!("no changed definition of `{tool}` of `{backend}` waits for approval\n");
            (StatusCode::NOT_FOUND, text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
