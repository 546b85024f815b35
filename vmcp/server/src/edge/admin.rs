//! The admin port: health, readiness, metrics, and everything an operator asks first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;
use vmcp_model::status::{self, StatusReport};
use vmcp_wire::pages::List;

use crate::config_watch::ConfigWatch;
use crate::engine::Engine;
use crate::identity::Identity;
use crate::optim::names::NameStyle;

/// What the admin port needs.
#[derive(Clone)]
pub struct Admin(Arc<Inner>);

struct Inner {
    engine: Engine,
    watch: Option<ConfigWatch>,
    started: Instant,
    draining: AtomicBool,
}

impl Admin {
    /// The admin port of `engine`, whose configuration file is followed by `watch`.
    pub fn new(engine: Engine, watch: Option<ConfigWatch>) -> Self {
        let started = Instant::now();
        Self(Arc::new(Inner { engine, watch, started, draining: AtomicBool::new(false) }))
    }

    /// Makes `/readyz` say that no new requests are wanted.
    pub fn draining(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn router(admin: Admin) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/admin/status", get(status))
        .route("/admin/tools", get(tools))
        .route("/admin/refresh", post(refresh))
        .with_state(admin)
}

/// Ready as soon as the configuration is in force: a dead backend, model or disk degrades what depends on it, and
/// nothing else.
async fn ready(State(Admin(inner)): State<Admin>) -> impl IntoResponse {
    if inner.draining.load(Ordering::Relaxed) {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n")
    } else {
        (StatusCode::OK, "ready\n")
    }
}

async fn metrics(State(Admin(inner)): State<Admin>) -> impl IntoResponse {
    if !inner.engine.snapshot().config.telemetry.metrics_enabled {
        return (StatusCode::NOT_FOUND, "telemetry.metricsEnabled is false\n").into_response();
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], inner.engine.render_metrics()).into_response()
}

/// `GET /admin/status`.
async fn status(State(Admin(inner)): State<Admin>) -> impl IntoResponse {
    let engine = &inner.engine;
    let snapshot = engine.snapshot();
    let view = snapshot.view(Identity::Anonymous);
    let connections = engine.metrics().client_connections.get();
    Json(StatusReport {
        name: status::NAME.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        uptime_seconds: inner.started.elapsed().as_secs(),
        generation: snapshot.generation,
        connections: u64::try_from(connections).unwrap_or_default(),
        configuration: inner.watch.as_ref().map(ConfigWatch::status).unwrap_or_default(),
        backends: engine.backend_status(),
        tools: view.visible_tools,
        listed_tools: view.list(List::Tools, NameStyle::Dotted).entries().len(),
        baseline_tokens: view.baseline_tokens,
        embeddings: engine.embedding_status(),
        issues: snapshot.unfiltered().issues.iter().map(ToString::to_string).collect(),
    })
}

#[derive(Deserialize)]
struct Filter {
    backend: Option<String>,
}

async fn tools(State(Admin(inner)): State<Admin>, Query(filter): Query<Filter>) -> impl IntoResponse {
    let snapshot = inner.engine.snapshot();
    let wanted = |backend: &str| filter.backend.as_deref().is_none_or(|wanted| wanted == backend);
    let tools = snapshot.unfiltered().tools.iter().filter(|tool| wanted(&tool.backend));
    let tools: Vec<_> = tools
        .map(|tool| {
            json!({
                "name": tool.name, "backend": tool.backend, "original": tool.definition.name, "title": tool.title,
                "description": tool.description, "hash": tool.hash.to_string(), "listed": tool.listed,
                "definition": tool.raw,
            })
        })
        .collect();
    Json(json!({ "tools": tools }))
}

/// Lists one backend (`?backend=`) or all of them anew.
async fn refresh(State(Admin(inner)): State<Admin>, Query(filter): Query<Filter>) -> impl IntoResponse {
    match (inner.engine.refresh(filter.backend.as_deref()), filter.backend) {
        (false, Some(backend)) => {
            (StatusCode::NOT_FOUND, format!("no enabled backend is called `{backend}`\n"))
        }
        _ => (StatusCode::ACCEPTED, "refreshing\n".to_owned()),
    }
}
