//! `/admin/logs` and `/admin/calls`: the latest lines and calls, for readers that go on behind the last one;
//! `/admin/runs`: the latest runs of composite tools.

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Json};
use serde::Deserialize;
use serde_json::json;

use super::Admin;
use vmcp_engine::telemetry::recent;

/// The query `?after=NUMBER&backend=NAME`.
#[derive(Deserialize)]
pub(super) struct RecentFilter {
    #[serde(default)]
    after: u64,
    backend: Option<String>,
}

/// Answers `GET /admin/logs`.
pub(super) async fn logs(Query(filter): Query<RecentFilter>) -> impl IntoResponse {
    let backend = filter.backend.as_deref();
    let wanted = |line: &recent::RecentLine| backend.is_none_or(|name| line.backend.as_deref() == Some(name));
    Json(recent::lines().since(filter.after, wanted))
}

/// Answers `GET /admin/calls`.
pub(super) async fn calls(
    State(Admin(inner)): State<Admin>,
    Query(filter): Query<RecentFilter>,
) -> impl IntoResponse {
    Json(inner.calls.since(filter.after, filter.backend.as_deref()))
}

/// The query `?tool=NAME`.
#[derive(Deserialize)]
pub(super) struct RunFilter {
    tool: Option<String>,
}

/// Answers `GET /admin/runs`.
pub(super) async fn runs(
    State(Admin(inner)): State<Admin>,
    Query(filter): Query<RunFilter>,
) -> impl IntoResponse {
    let mut runs = inner.engine.runs().book().all();
    runs.retain(|run| filter.tool.as_ref().is_none_or(|tool| *tool == run.tool));
    Json(json!({ "runs": runs }))
}
