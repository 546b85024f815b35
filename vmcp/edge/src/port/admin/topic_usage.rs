//! `/admin/tools/usage`: the tokens that contexts save at `GET /tools`, and their reset.

use axum::extract::State;
use axum::response::{IntoResponse, Json};

use super::Admin;

/// Answers `GET /admin/tools/usage`.
pub(super) async fn show(State(Admin(inner)): State<Admin>) -> impl IntoResponse {
    Json(inner.engine.topic_usage().report())
}

/// Answers `POST /admin/tools/usage/reset`.
pub(super) async fn reset(State(Admin(inner)): State<Admin>) -> impl IntoResponse {
    inner.engine.topic_usage().reset();
    "reset\n"
}
