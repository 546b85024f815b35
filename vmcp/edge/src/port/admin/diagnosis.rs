//! Routes for the diagnosis of one question: a call, a tool, the configuration, the level of the log, the use
//! of CPU time, and everything for support.

pub mod call_trace;
pub mod config_dump;
pub mod explain_tool;
pub(super) mod log_level;
pub(super) mod profile;
pub mod support;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde_json::json;

/// Answers 400 with the reason, which names the field.
fn bad_request(error: &str) -> Response {
    (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response()
}

#[cfg(test)]
mod tests;
