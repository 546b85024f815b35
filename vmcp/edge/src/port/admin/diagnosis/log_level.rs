//! `/admin/log-level`: the level of log lines, changed while the process runs.

use std::time::{Duration, SystemTime};

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Json, Response};
use serde::Deserialize;
use tokio_util::task::AbortOnDropHandle;

use super::bad_request;
use crate::port::admin::Admin;
use vmcp_engine::telemetry::logs::levels;

/// The query `?level=debug&module=NAME&for=10m`, or `?reset=true&module=NAME`. A misspelled `module` would
/// change the level of all.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
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
    change: Result<Query<LevelChange>, QueryRejection>,
) -> Response {
    let Query(change) = match change {
        Ok(change) => change,
        Err(rejection) => return bad_request(&format!("query: {}", rejection.body_text())),
    };
    // The lock is held over the change: of two orders at once, the later one's timer stays.
    let changed = put_in_force(change, &mut admin.0.level_timer.lock());
    match changed {
        Ok(()) => show().await,
        Err(error) => bad_request(&error),
    }
}

/// Changes the levels, and replaces the timer that ends the changes. A change without a time of its own
/// leaves the timer running.
fn put_in_force(change: LevelChange, timer: &mut Option<AbortOnDropHandle<()>>) -> Result<(), String> {
    let LevelChange { level, module, life, reset } = change;
    let Ok(life) = life.as_deref().map(humantime::parse_duration).transpose() else {
        return Err("for: write a time such as for=10m".to_owned());
    };
    match (reset, level) {
        (true, None) if life.is_some() => return Err("for: `reset=true` has effect at once".to_owned()),
        (true, None) => {
            let is_over = match &module {
                Some(module) => levels::reset_module(module),
                None => levels::reset(None),
            };
            if is_over.map_err(|error| error.to_string())? {
                *timer = None;
            }
        }
        (false, Some(level)) => {
            let until = levels::change(&level, module.as_deref(), life).map_err(|error| error.to_string())?;
            if let Some((until, life)) = until.zip(life) {
                // The handle of the earlier timer aborts it.
                *timer = Some(start_timer(until, life));
            }
        }
        (true, Some(_)) => return Err("reset: give `level` or `reset=true`, not both".to_owned()),
        (false, None) => return Err("level: name a level such as level=debug, or reset=true".to_owned()),
    }
    Ok(())
}

/// Goes back to the levels of the start after `life`, if the changes still end at `until`.
fn start_timer(until: SystemTime, life: Duration) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        tokio::time::sleep(life).await;
        if matches!(levels::reset(Some(until)), Ok(true)) {
            tracing::info!("the changes of the log level have ended");
        }
    }))
}
