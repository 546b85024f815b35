//! `/admin/tool-metrics`: calls, success rate and latency of each tool.

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde_json::json;

use super::Admin;
use crate::telemetry::tool_metrics::report::{MetricsQuery, report};

/// Answers `GET /admin/tool-metrics`.
pub(super) async fn show(State(Admin(inner)): State<Admin>, Query(query): Query<MetricsQuery>) -> Response {
    let recorder = inner.engine.tool_metrics();
    recorder.flush().await;
    let snapshot = inner.engine.snapshot();
    let report = report(&recorder.book(), Some(snapshot.unfiltered()), &query, |_| true);
    if let Some(tool) = query.tool.filter(|_| report.tools.is_empty()) {
        return (StatusCode::NOT_FOUND, format!("no call of `{tool}` was counted\n")).into_response();
    }
    Json(report).into_response()
}

/// Answers `POST /admin/tool-metrics/reset`.
pub(super) async fn reset(
    State(Admin(inner)): State<Admin>,
    Query(query): Query<MetricsQuery>,
) -> impl IntoResponse {
    Json(json!({"reset": inner.engine.tool_metrics().reset(query.filter()).await}))
}
