//! `/admin/tool-metrics`: calls, success rate and latency of each tool, summed over replicas; below it the
//! history of this process's database; and `/admin/replica`, from which replicas get what they sum.

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Admin;
use vmcp_engine::engine::replicas::Census;
use vmcp_engine::telemetry::tool_metrics::history::HistoryQuery;
use vmcp_engine::telemetry::tool_metrics::report::{MetricsQuery, MetricsScope, report};

/// Answers `GET /admin/tool-metrics`.
pub(super) async fn show(State(Admin(inner)): State<Admin>, Query(query): Query<MetricsQuery>) -> Response {
    let (engine, snapshot) = (&inner.engine, inner.engine.snapshot());
    let (book, census) = if query.scope == Some(MetricsScope::Own) {
        engine.tool_metrics().flush().await;
        (engine.tool_metrics().book(), None)
    } else {
        engine.gather_metrics().await;
        (engine.total_metrics(), engine.census(&snapshot))
    };
    let mut report = report(&book, Some(snapshot.unfiltered()), &query, |_| true);
    if let Some(Census { replicas, unreachable }) = census {
        report.replicas = Some(replicas);
        report.unreachable = unreachable;
    }
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
    let only_here = query.scope == Some(MetricsScope::Own);
    Json(json!({"reset": inner.engine.reset_metrics(query.filter(), only_here).await}))
}

/// Answers `GET /admin/tool-metrics/days`.
pub(super) async fn days(State(Admin(inner)): State<Admin>, Query(wanted): Query<HistoryQuery>) -> Response {
    if let Err(error) = wanted.check() {
        return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response();
    }
    history(inner.engine.tool_metrics().days(wanted).await)
}

/// Answers `GET /admin/tool-metrics/calls`.
pub(super) async fn calls(State(Admin(inner)): State<Admin>, Query(wanted): Query<HistoryQuery>) -> Response {
    if let Err(error) = wanted.check() {
        return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response();
    }
    history(inner.engine.tool_metrics().calls(wanted).await)
}

fn history(report: Option<impl Serialize>) -> Response {
    if let Some(report) = report {
        return Json(report).into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, "the history cannot be read now: the log says why, or too many calls wait (vmcp_tool_metrics_dropped_total): ask again\n").into_response()
}

/// Answers `GET /admin/replica`; 304 if the report is the one of `If-None-Match`.
pub(super) async fn replica(
    State(Admin(inner)): State<Admin>,
    Query(query): Query<ReplicaQuery>,
    headers: HeaderMap,
) -> Response {
    let known_tag = headers.get(header::IF_NONE_MATCH).and_then(|tag| tag.to_str().ok());
    let (tag, report) = inner.engine.replica_report(query.learned_after, known_tag).await;
    let tag = [(header::ETAG, tag)];
    match report {
        Some(report) => (tag, Json(report)).into_response(),
        None => (StatusCode::NOT_MODIFIED, tag).into_response(),
    }
}

/// Answers `GET /admin/replica/usage`.
pub(super) async fn replica_usage(
    State(Admin(inner)): State<Admin>,
    Query(wanted): Query<HistoryQuery>,
) -> Response {
    if let Err(error) = wanted.check() {
        return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response();
    }
    history(inner.engine.replica_usage(wanted).await)
}

/// The parameters of `GET /admin/replica`.
#[derive(Debug, Deserialize)]
pub(super) struct ReplicaQuery {
    /// Only pairs that were used at this time, in milliseconds, or later.
    #[serde(default)]
    learned_after: i64,
}
