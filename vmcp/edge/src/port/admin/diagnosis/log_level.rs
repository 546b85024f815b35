//! `/admin/log-level`: the level of log lines, changed while the process runs.

use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Json, Response};
use serde::Deserialize;
use tokio_util::task::AbortOnDropHandle;

use super::bad_request;
use crate::port::admin::Admin;
use vmcp_engine::telemetry::logs::levels;

/// The query `?level=debug&module=NAME&for=10m`, or `?reset=true`.
#[derive(Deserialize)]
pub(in crate::port::admin) struct LevelChange {
    level: Option<String>,
    module: Option<String>,
    #[serde(rename = "for")]
    life: Option<String>,
    #[serde(default)]
    reset: bool,
}

/// Answers `GET /admin/log-level`.
pub(in crate::port::admin) async fn show() -> Response {
    Json(levels::report()).into_response()
}

/// Answers `PUT /admin/log-level`. The audit event of the order has the query.
pub(in crate::port::admin) async fn change(
    State(admin): State<Admin>,
    Query(change): Query<LevelChange>,
) -> Response {
    let LevelChange { level, module, life, reset } = change;
    let Ok(life) = life.as_deref().map(humantime::parse_duration).transpose() else {
        return bad_request("for: write a time such as for=10m");
    };
    let changed = match (reset, level) {
        (true, None) => levels::reset(None).map(|_| None),
        (false, Some(level)) => levels::change(&level, module.as_deref(), life).map(Some),
        (true, Some(_)) => return bad_request("reset: give `level` or `reset=true`, not both"),
        (false, None) => return bad_request("level: name a level such as level=debug, or reset=true"),
    };
    match changed {
        Ok(revision) => {
            // A timer of an earlier change ends with its replacement.
            *admin.0.level_timer.lock() = revision.zip(life).map(|(revision, life)| timer(revision, life));
            show().await
        }
        Err(error) => bad_request(&error.to_string()),
    }
}

/// Goes back to the levels of the start when the change `revision` has had its time.
fn timer(revision: u64, life: Duration) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        tokio::time::sleep(life).await;
        if matches!(levels::reset(Some(revision)), Ok(true)) {
            tracing::info!("the change of the log level has ended");
        }
    }))
}
