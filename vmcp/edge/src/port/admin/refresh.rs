//! `/admin/refresh` and `/admin/embeddings/regenerate`: listings and vectors of tools, made again on demand.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde::Deserialize;
use serde_json::json;

use super::{Admin, BackendFilter};

/// The query `?backend=NAME&wait=true&force=true`.
#[derive(Deserialize)]
pub(super) struct RefreshQuery {
    backend: Option<String>,
    #[serde(default)]
    wait: bool,
    #[serde(default)]
    force: bool,
}

/// Answers `POST /admin/refresh`: lists one backend or all of them again.
pub(super) async fn refresh(
    State(Admin(inner)): State<Admin>,
    Query(RefreshQuery { backend, wait, force }): Query<RefreshQuery>,
) -> Response {
    let snapshot = inner.engine.snapshot();
    let is_wanted = |name: &&Arc<str>| backend.as_deref().is_none_or(|wanted| wanted == &***name);
    let wanted: Vec<Arc<str>> = snapshot.backends.keys().filter(is_wanted).cloned().collect();
    match backend {
        Some(backend) if wanted.is_empty() => unknown(&backend),
        _ if wait || force => {
            Json(json!({"servers": inner.engine.refresh_and_wait(&wanted, force).await})).into_response()
        }
        backend => {
            inner.engine.refresh(backend.as_deref());
            (StatusCode::ACCEPTED, "refreshing\n").into_response()
        }
    }
}

/// Answers `POST /admin/embeddings/regenerate`: embeds the tools of one backend or of all again.
pub(super) async fn regenerate(
    State(Admin(inner)): State<Admin>,
    Query(BackendFilter { backend }): Query<BackendFilter>,
) -> Response {
    if let Some(backend) =
        backend.as_deref().filter(|name| !inner.engine.snapshot().backends.contains_key(*name))
    {
        return unknown(backend);
    }
    match inner.engine.regenerate_embeddings(backend.as_deref()).await {
        Ok(done) => Json(json!({
            "regenerated": done.embedded, "failed": done.failed, "duration_ms": done.took.as_millis() as u64,
        }))
        .into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

fn unknown(backend: &str) -> Response {
    (StatusCode::NOT_FOUND, format!("no enabled backend is called `{backend}`\n")).into_response()
}
