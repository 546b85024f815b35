//! `GET /admin/calls/trace`: everything that is kept about one call, with its log lines.

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::bad_request;
use crate::port::admin::Admin;
use vmcp_engine::telemetry::recent::{RecentLine, TracedCall, WantedCall, lines};

/// Most log lines of an answer; the latest ones are left out.
const MAX_LINES: usize = 200;

/// A call, the calls within it, and the log lines of its backends meanwhile.
#[derive(Debug, Serialize, Deserialize)]
pub struct CallTrace {
    /// The calls, in the order of their ends.
    pub calls: Vec<TracedCall>,
    /// Log lines about the backends of these calls between the first begin and the last end, at most 200.
    pub lines: Vec<RecentLine>,
}

/// The query `?id=12`.
#[derive(Deserialize)]
pub(in crate::port::admin) struct TraceQuery {
    id: Option<String>,
}

/// Answers `GET /admin/calls/trace`.
pub(in crate::port::admin) async fn show(
    State(Admin(inner)): State<Admin>,
    Query(TraceQuery { id }): Query<TraceQuery>,
) -> Response {
    let Some(wanted) = id.as_deref().and_then(WantedCall::parse) else {
        return bad_request(
            "id: give the number of a call, as `vmcp calls` shows it, or a trace id of 32 hex digits",
        );
    };
    let calls = inner.calls.traced(&wanted);
    if calls.is_empty() {
        let error = "no such call among the latest 1000 of this process";
        return (StatusCode::NOT_FOUND, Json(json!({ "error": error }))).into_response();
    }
    let lines = lines().since(0, |line| is_about(line, &calls)).entries;
    Json(CallTrace { calls, lines: lines.into_iter().take(MAX_LINES).collect() }).into_response()
}

/// Returns true for a line about the backend of one of the calls while it was under way. Times are RFC 3339
/// in UTC with milliseconds, so that they compare as texts.
fn is_about(line: &RecentLine, calls: &[TracedCall]) -> bool {
    calls.iter().any(|call| {
        line.backend.is_some()
            && line.backend == call.call.backend
            && *call.begun <= *line.at
            && *line.at <= *call.call.at
    })
}
