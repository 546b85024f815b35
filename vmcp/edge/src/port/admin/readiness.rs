//! `/readyz`: the readiness that Kubernetes' probes ask for.

use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use vmcp_backend::Backend;
use vmcp_config::status::{BackendState, BackendStatus};

use super::guard::AdminGuard;

/// Answers `/readyz`: ready as soon as the configuration is in force. A dead backend, model or disk degrades
/// what depends on it, and nothing else, unless `partialFailureMode: fail` says so. A bridge is as ready as
/// its program, whose last words are shown to operators only: they may hold secrets.
pub(super) async fn show(State(guard): State<AdminGuard>, headers: HeaderMap) -> impl IntoResponse {
    let inner = &guard.admin.0;
    if inner.draining.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned());
    }
    let snapshot = inner.engine.snapshot();
    let program = snapshot.backends.values().next().filter(|_| snapshot.bridge).map(Backend::status);
    match program {
        Some(status) if status.state != BackendState::Connected || snapshot.stands_for().is_none() => {
            let reason = match &status.last_error {
                Some(reason) if guard.admits(&headers) => reason,
                Some(_) => "/admin/status has the reason",
                None => "it has not answered yet",
            };
            (StatusCode::SERVICE_UNAVAILABLE, format!("{} is not up: {reason}\n", status.name))
        }
        _ if snapshot.config.operational.needs_all_backends => {
            let statuses = snapshot.backends.values().map(Backend::status);
            let down: Vec<_> = statuses.filter(is_down).map(|status| status.name).collect();
            if down.is_empty() {
                (StatusCode::OK, "ready\n".to_owned())
            } else {
                (StatusCode::SERVICE_UNAVAILABLE, format!("not connected: {}\n", down.join(", ")))
            }
        }
        _ => (StatusCode::OK, "ready\n".to_owned()),
    }
}

/// Returns true if a backend cannot be called now. A backend that no client has needed yet can be called.
fn is_down(status: &BackendStatus) -> bool {
    !matches!(status.state, BackendState::Connected | BackendState::Configured)
}
