//! The routes of the admin port, with their guard and the audit of orders. Reports are in the rooms beside
//! this one, pages of the console in [`console`].

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use vmcp_exposition::Format;

use super::guard::{AdminGuard, admit, admit_scraper, audit, from_known_host};
use super::{
    Admin, BackendFilter, diagnosis, operator_call, readiness, recent, refresh, sessions, status,
    tool_changes, tool_metrics, topic_usage,
};
use crate::port::admin_routes::{ADMIN_ROUTES, AdminRoute};
use crate::port::console;

/// Pause after a connection that could not be accepted.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Returns all routes of the admin port, which listens at `address`.
pub fn router(admin: Admin, address: SocketAddr) -> Router {
    let guard = AdminGuard::new(admin.clone(), address);
    let guarded =
        report_routes(admin.clone()).route_layer(middleware::from_fn_with_state(guard.clone(), admit));
    Router::new()
        .route("/readyz", get(readiness::show))
        .route("/", get(index).layer(middleware::from_fn(console::put_prefix_before)))
        .with_state(guard.clone())
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/metrics", get(metrics).layer(middleware::from_fn_with_state(guard.clone(), admit_scraper)))
        .with_state(admin)
        .merge(guarded)
        .merge(console::routes(&guard))
        .layer(middleware::from_fn_with_state(guard, from_known_host))
        .layer(middleware::from_fn(console::add_security_headers))
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
