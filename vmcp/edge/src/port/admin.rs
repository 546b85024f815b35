//! The admin port: `/healthz`, `/readyz`, `/metrics`, and the reports under `/admin/`, which want a bearer
//! token.

pub mod diagnosis;
mod guard;
pub mod operator_call;
pub mod port;
mod readiness;
mod recent;
mod refresh;
mod sessions;
pub(in crate::port) mod status;
mod tool_changes;
mod tool_metrics;
mod topic_usage;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;
use vmcp_config::status::ConfigurationStatus;
use vmcp_exposition::Format;

pub(in crate::port) use self::guard::audit::OperatorAddress;
pub(in crate::port) use self::guard::{AdminGuard, audit, bearer, from_known_host, is_one_of};
use self::guard::{admit, admit_scraper};
use super::admin_routes::{ADMIN_ROUTES, AdminRoute};
use super::console;
use super::console::sources::ConsoleSources;
use vmcp_engine::engine::Engine;
use vmcp_engine::telemetry::recent::RecentCalls;

/// Pause after a connection that could not be accepted.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The state of the admin port; cheap to clone.
#[derive(Clone)]
pub struct Admin(pub(in crate::port) Arc<AdminState>);

pub(in crate::port) struct AdminState {
    pub(in crate::port) engine: Engine,
    /// Outcome of the latest reloads; `None` without a configuration file.
    pub(in crate::port) configuration: Option<watch::Receiver<ConfigurationStatus>>,
    started: Instant,
    draining: AtomicBool,
    /// The latest calls.
    pub(in crate::port) calls: Arc<RecentCalls>,
    /// Remedies and snippets of the console.
    pub(in crate::port) console: ConsoleSources,
    /// Address of the client port, once it is bound.
    clients_at: OnceLock<SocketAddr>,
    /// Ends a change of the log level that was made for a time.
    level_timer: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl Admin {
    /// Creates the admin port of `engine`, whose reloads `configuration` reports.
    pub fn new(engine: Engine, configuration: Option<watch::Receiver<ConfigurationStatus>>) -> Self {
        Self::with_calls(engine, configuration, Arc::default(), ConsoleSources::default())
    }

    /// As [`Admin::new`]; `calls` observes the calls of `engine`, and `console` adds to its pages.
    pub fn with_calls(
        engine: Engine,
        configuration: Option<watch::Receiver<ConfigurationStatus>>,
        calls: Arc<RecentCalls>,
        console: ConsoleSources,
    ) -> Self {
        Self(Arc::new(AdminState {
            engine,
            configuration,
            started: Instant::now(),
            draining: AtomicBool::new(false),
            calls,
            console,
            clients_at: OnceLock::new(),
            level_timer: Mutex::default(),
        }))
    }

    /// Records the address of the client port, which the console shows. The first record stays.
    pub(in crate::port) fn serves_clients_at(&self, address: SocketAddr) {
        let _ = self.0.clients_at.set(address);
    }

    /// Returns the address of the client port, if there is one.
    pub(in crate::port) fn clients_at(&self) -> Option<SocketAddr> {
        self.0.clients_at.get().copied()
    }

    /// Makes `/readyz` answer 503, so that no new requests are sent here.
    pub fn draining(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
    }
}

/// Returns all routes of the admin port, which listens at `address`.
pub fn router(admin: Admin, address: SocketAddr) -> Router {
    let guard = AdminGuard::new(admin.clone(), address);
    let guarded =
        report_routes(admin.clone()).route_layer(middleware::from_fn_with_state(guard.clone(), admit));
    Router::new()
        .route("/readyz", get(readiness::show))
        .route("/", get(index))
        .with_state(guard.clone())
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/metrics", get(metrics).layer(middleware::from_fn_with_state(guard.clone(), admit_scraper)))
        .with_state(admin)
        .merge(guarded)
        .merge(console::routes(&guard))
        .layer(middleware::from_fn_with_state(guard, from_known_host))
}

/// Returns the routes that only operators may use, without the guard.
pub fn report_routes(admin: Admin) -> Router {
    Router::new()
        .route("/admin/status", get(status::show))
        .route("/admin/tools", get(tools))
        .route("/admin/tools/changes", get(tool_changes::show))
        .route("/admin/tools/trusted", get(tool_changes::trusted))
        .route("/admin/tools/usage", get(topic_usage::show))
        .route("/admin/tools/usage/reset", post(topic_usage::reset))
        .route("/admin/tools/approve", post(tool_changes::approve))
        .route("/admin/refresh", post(refresh::refresh))
        .route("/admin/embeddings/regenerate", post(refresh::regenerate))
        .route("/admin/restart", post(restart))
        .route("/admin/sessions/end", post(sessions::end))
        .route("/admin/sessions/allow", post(sessions::allow))
        .route("/admin/sessions/ended", get(sessions::list))
        .route("/admin/logins", get(sessions::logins))
        .route("/admin/logins/forget", post(sessions::forget_login))
        .route("/admin/logs", get(recent::logs))
        .route("/admin/calls", get(recent::calls))
        .route("/admin/calls/trace", get(diagnosis::call_trace::show))
        .route("/admin/explain-tool", post(diagnosis::explain_tool::serve))
        .route("/admin/config_dump", get(diagnosis::config_dump::show))
        .route("/admin/support", get(diagnosis::support::show))
        .route("/admin/log-level", get(diagnosis::log_level::show).put(diagnosis::log_level::change))
        .route("/admin/profile", post(diagnosis::profile::take))
        .route("/admin/runs", get(recent::runs))
        .route("/admin/tool-metrics", get(tool_metrics::show))
        .route("/admin/tool-metrics/days", get(tool_metrics::days))
        .route("/admin/tool-metrics/calls", get(tool_metrics::calls))
        .route("/admin/tool-metrics/reset", post(tool_metrics::reset))
        .route("/admin/replica", get(tool_metrics::replica))
        .route("/admin/replica/usage", get(tool_metrics::replica_usage))
        .merge(console::replica_routes())
        .route_layer(middleware::from_fn_with_state(admin.clone(), audit::record))
        .with_state(admin)
}

/// Serves reports, and calls of tools, at a socket that only this user can reach; the task never ends by
/// itself. HTTP/1.1 alone: commands speak nothing else, and HTTP/2 would be compiled again for the socket.
pub fn serve_locally(listener: UnixListener, admin: Admin) -> JoinHandle<()> {
    let router = local_routes(admin);
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            };
            let serving = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
            // A command that goes away ends its connection alone.
            tokio::spawn(async move { drop(serving.await) });
        }
    })
}

/// Returns the routes of a socket that only this user can reach: the reports, and calls of tools.
fn local_routes(admin: Admin) -> Router {
    let calls = Router::new()
        .route("/admin/call", post(operator_call::serve))
        .route_layer(middleware::from_fn_with_state(admin.clone(), audit::record))
        .with_state(admin.clone());
    report_routes(admin).merge(calls)
}

/// Answers `/` with the routes of this port; a browser is sent to the console where that is served.
async fn index(State(guard): State<AdminGuard>, request: Request) -> Response {
    let accepts =
        request.headers().get(header::ACCEPT).and_then(|kinds| kinds.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/html") && console::is_served(&guard, &request) {
        return (StatusCode::SEE_OTHER, [(header::LOCATION, console::ROOT)]).into_response();
    }
    let line = |route: &AdminRoute| format!("{:4} {}\n", route.method, route.path);
    let lines = ADMIN_ROUTES.iter().map(line);
    std::iter::once("The admin port of vmcp\n\n".to_owned()).chain(lines).collect::<String>().into_response()
}

/// Answers `/metrics` in the text format that the request accepts.
async fn metrics(State(Admin(inner)): State<Admin>, headers: HeaderMap) -> impl IntoResponse {
    if !inner.engine.snapshot().config.telemetry.metrics_enabled {
        return (StatusCode::NOT_FOUND, "telemetry.metricsEnabled is false\n").into_response();
    }
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::of_accept(accept.unwrap_or_default());
    let text = format.render(inner.engine.render_metrics());
    ([(header::CONTENT_TYPE, format.content_type())], text).into_response()
}

/// The query `?backend=NAME`.
#[derive(Deserialize)]
struct BackendFilter {
    backend: Option<String>,
}

/// Answers `GET /admin/tools`: every tool of the catalog, hidden ones included.
async fn tools(State(Admin(inner)): State<Admin>, Query(filter): Query<BackendFilter>) -> impl IntoResponse {
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

/// Answers `POST /admin/restart`: closes the connection of one backend (`?backend=`), whose program ends with
/// it, and makes another.
async fn restart(
    State(Admin(inner)): State<Admin>,
    Query(filter): Query<BackendFilter>,
) -> impl IntoResponse {
    let Some(name) = filter.backend else {
        return (StatusCode::BAD_REQUEST, "name a backend: ?backend=NAME\n".to_owned());
    };
    match inner.engine.snapshot().backends.get(name.as_str()) {
        Some(backend) => {
            backend.restart();
            (StatusCode::ACCEPTED, "restarting\n".to_owned())
        }
        None => (StatusCode::NOT_FOUND, format!("no enabled backend is called `{name}`\n")),
    }
}

#[cfg(test)]
mod tests;
