//! The admin port: `/healthz`, `/readyz`, `/metrics`, and the reports under `/admin/`, which want a bearer
//! token.

pub(crate) mod operator_call;
mod recent;
mod tool_changes;
mod tool_metrics;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use futures::FutureExt as _;
use serde::Deserialize;
use serde_json::json;
use subtle::{Choice, ConstantTimeEq as _};
use vmcp_access::oidc::issuer::IssuerStatus;
use vmcp_backend::Backend;
use vmcp_config::Secret;
use vmcp_config::status::{self, BackendState, BackendStatus, IdentityProviderStatus, StatusReport};
use vmcp_wire::lists::pages::List;

use super::layers::host_rules::{GuardRefusal, HostGuard};
use crate::config_file::watch::ConfigWatch;
use crate::engine::{Engine, Snapshot};
use crate::optim::names::NameStyle;
use crate::telemetry::recent::RecentCalls;

const UNAUTHORIZED_TEXT: &str = "this needs one of server.adminTokens as bearer token (of a bridge: --admin-token-file); \
    without a configured token it is served on loopback addresses only\n";

/// The state of the admin port; cheap to clone.
#[derive(Clone)]
pub struct Admin(Arc<AdminState>);

struct AdminState {
    engine: Engine,
    watch: Option<ConfigWatch>,
    started: Instant,
    draining: AtomicBool,
    /// The latest calls.
    calls: Arc<RecentCalls>,
}

impl Admin {
    /// Creates the admin port of `engine`, whose configuration file is followed by `watch`.
    pub fn new(engine: Engine, watch: Option<ConfigWatch>) -> Self {
        Self::with_calls(engine, watch, Arc::default())
    }

    /// As [`Admin::new`]; `calls` observes the calls of `engine`.
    pub fn with_calls(engine: Engine, watch: Option<ConfigWatch>, calls: Arc<RecentCalls>) -> Self {
        let started = Instant::now();
        Self(Arc::new(AdminState { engine, watch, started, draining: AtomicBool::new(false), calls }))
    }

    /// Makes `/readyz` answer 503, so that no new requests are sent here.
    pub fn draining(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
    }
}

/// Returns all routes of the admin port, which listens at `address`.
pub(crate) fn router(admin: Admin, address: SocketAddr) -> Router {
    let guard = AdminGuard {
        admin: admin.clone(),
        loopback: address.ip().is_loopback(),
        host: Arc::new(HostGuard::new(address, &[], &[])),
    };
    let guarded =
        report_routes(admin.clone()).route_layer(middleware::from_fn_with_state(guard.clone(), admit));
    Router::new()
        .route("/readyz", get(ready))
        .with_state(guard.clone())
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/metrics", get(metrics))
        .with_state(admin)
        .merge(guarded)
        .layer(middleware::from_fn_with_state(guard, from_known_host))
}

/// Returns the routes that only operators may use, without the guard.
pub(crate) fn report_routes(admin: Admin) -> Router {
    Router::new()
        .route("/admin/status", get(status))
        .route("/admin/tools", get(tools))
        .route("/admin/tools/changes", get(tool_changes::show))
        .route("/admin/tools/approve", post(tool_changes::approve))
        .route("/admin/refresh", post(refresh))
        .route("/admin/restart", post(restart))
        .route("/admin/logs", get(recent::logs))
        .route("/admin/calls", get(recent::calls))
        .route("/admin/tool-metrics", get(tool_metrics::show))
        .route("/admin/tool-metrics/reset", post(tool_metrics::reset))
        .route("/admin/replica", get(tool_metrics::replica))
        .with_state(admin)
}

/// Returns the routes of a socket that only this user can reach: the reports, and calls of tools.
pub(crate) fn local_routes(admin: Admin) -> Router {
    let calls = Router::new().route("/admin/call", post(operator_call::serve)).with_state(admin.clone());
    report_routes(admin).merge(calls)
}

/// Admits operators to the reports.
#[derive(Clone)]
struct AdminGuard {
    admin: Admin,
    /// True if the port can be reached from this machine only.
    loopback: bool,
    /// The rules against DNS rebinding and foreign pages.
    host: Arc<HostGuard>,
}

impl AdminGuard {
    /// Returns true for a request with one of `server.adminTokens` or, if none is configured, on a loopback
    /// address.
    fn admits(&self, headers: &HeaderMap) -> bool {
        let tokens = &self.admin.0.engine.snapshot().config.server.admin_tokens;
        if tokens.is_empty() {
            return self.loopback;
        }
        has_token(headers, tokens)
    }
}

/// Returns true for a request with one of `tokens`.
fn has_token(headers: &HeaderMap, tokens: &[Secret]) -> bool {
    bearer(headers).is_some_and(|token| is_one_of(token, tokens))
}

/// Middleware that refuses requests for a foreign host (DNS rebinding) and those of foreign pages. A request
/// with a token needs no such rule: no page has one.
async fn from_known_host(State(guard): State<AdminGuard>, request: Request, next: Next) -> Response {
    let (version, uri, headers) = (request.version(), request.uri(), request.headers());
    let Err(refusal) = guard.host.check(version, uri, headers) else { return next.run(request).await };
    if has_token(headers, &guard.admin.0.engine.snapshot().config.server.admin_tokens) {
        return next.run(request).await;
    }
    let (status, reason) = match refusal {
        GuardRefusal::Malformed => (StatusCode::BAD_REQUEST, refusal.to_string()),
        GuardRefusal::Host(host) => (
            StatusCode::FORBIDDEN,
            format!("host `{host}` is not served here; use a loopback name or a token"),
        ),
        GuardRefusal::Origin(origin) => {
            (StatusCode::FORBIDDEN, format!("pages of `{origin}` may not use the admin port without a token"))
        }
    };
    (status, reason + "\n").into_response()
}

/// Middleware that passes requests of operators and answers 401 to all others.
async fn admit(State(guard): State<AdminGuard>, request: Request, next: Next) -> Response {
    if guard.admits(request.headers()) {
        return next.run(request).await;
    }
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, challenge, UNAUTHORIZED_TEXT).into_response()
}

/// Returns the bearer token of a request.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

/// Compares in constant time: a token that is nearly right takes as long as any other of its length. All
/// tokens are compared, so the time does not tell which one matched.
fn is_one_of(token: &[u8], tokens: &[Secret]) -> bool {
    let same = tokens.iter().map(|known| known.expose().as_bytes().ct_eq(token));
    same.fold(Choice::from(0), |any, this| any | this).into()
}

/// Answers `/readyz`: ready as soon as the configuration is in force. A dead backend, model or disk degrades
/// what depends on it, and nothing else, unless `partialFailureMode: fail` says so. A bridge is as ready as
/// its program, whose last words are shown to operators only: they may hold secrets.
async fn ready(State(guard): State<AdminGuard>, headers: HeaderMap) -> impl IntoResponse {
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

/// Returns true if a backend cannot be called now; one that nobody has needed yet can.
fn is_down(status: &BackendStatus) -> bool {
    !matches!(status.state, BackendState::Connected | BackendState::Configured)
}

/// Answers `/metrics` in the OpenMetrics text format.
async fn metrics(State(Admin(inner)): State<Admin>) -> impl IntoResponse {
    if !inner.engine.snapshot().config.telemetry.metrics_enabled {
        return (StatusCode::NOT_FOUND, "telemetry.metricsEnabled is false\n").into_response();
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], inner.engine.render_metrics()).into_response()
}

/// Returns definitions that were renamed or left out, and once all backends have settled, pinned tools that
/// none of them has.
fn issues(engine: &Engine, snapshot: &Snapshot) -> Vec<String> {
    let catalog = snapshot.unfiltered();
    let mut issues: Vec<_> = catalog.issues.iter().map(ToString::to_string).collect();
    if engine.settled().now_or_never().is_some() {
        let has = |name: &str| catalog.tools.iter().any(|tool| tool.name == name);
        let pinned = snapshot.config.optimizer.pinned_tools.iter().filter(|name| !has(name));
        issues.extend(
            pinned.map(|name| format!("{name}: pinned (optimizer.pinnedTools), but no server has it")),
        );
    }
    issues
}

/// Answers `GET /admin/status` with the report that operators, the command line and the operator read.
async fn status(State(Admin(inner)): State<Admin>) -> impl IntoResponse {
    let engine = &inner.engine;
    let snapshot = engine.snapshot();
    let view = snapshot.whole_view();
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
        identity_providers: snapshot.authentication.status().into_iter().map(identity_provider).collect(),
        issues: issues(engine, &snapshot),
    })
}

/// Returns the report about one identity provider.
fn identity_provider(status: IssuerStatus) -> IdentityProviderStatus {
    let IssuerStatus { issuer, keys, failure } = status;
    let (last_error, failing_since) = failure.unzip();
    IdentityProviderStatus {
        issuer,
        keys,
        last_error: last_error.map(|error| error.to_string()),
        failing_since,
    }
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

/// Answers `POST /admin/refresh`: lists one backend (`?backend=`) or all of them again.
async fn refresh(
    State(Admin(inner)): State<Admin>,
    Query(filter): Query<BackendFilter>,
) -> impl IntoResponse {
    match (inner.engine.refresh(filter.backend.as_deref()), filter.backend) {
        (false, Some(backend)) => {
            (StatusCode::NOT_FOUND, format!("no enabled backend is called `{backend}`\n"))
        }
        _ => (StatusCode::ACCEPTED, "refreshing\n".to_owned()),
    }
}

/// Answers `POST /admin/restart`: closes the connection of one backend (`?backend=`), whose program ends with
/// it, and makes another.
async fn restart(
    State(Admin(inner)): State<Admin>,
    Query(filter): Query<BackendFilter>,
) -> impl IntoResponse {
    let Some(name) = filter.backend else {
        return (StatusCode::ACCEPTED, "name a backend: ?backend=NAME\n".to_owned());
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
mod tests {
    use axum::body::Body;
    use tower::ServiceExt as _;

    use super::*;
    use crate::testing::{KEYWORDS, config, engine};

    const OLD: &str = "an old token of enough characters";
    const NEW: &str = "a new token of enough characters";

    #[tokio::test]
    async fn reports_want_one_of_the_tokens_in_force_and_probes_none() {
        let engine = engine(KEYWORDS).await;
        let at = |address: [u8; 4]| router(Admin::new(engine.clone(), None), (address, 0).into());
        let (here, everywhere) = (at([127, 0, 0, 1]), at([0, 0, 0, 0]));
        let ask_at = async |router: &Router, path: &str, authorization: Option<&str>| {
            let mut request = Request::get(path).header(header::HOST, "localhost:9090");
            if let Some(authorization) = authorization {
                request = request.header(header::AUTHORIZATION, authorization);
            }
            let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            let challenge =
                response.headers().get(header::WWW_AUTHENTICATE).map(|value| value.to_str().unwrap());
            assert_eq!(challenge, (response.status() == 401).then_some("Bearer"));
            response.status().as_u16()
        };
        let ask = async |path: &str, authorization: Option<&str>| ask_at(&here, path, authorization).await;
        let bearer = |token: &str| format!("Bearer {token}");
        assert_eq!(ask("/admin/status", None).await, 200, "open on loopback until a token is configured");
        assert_eq!(
            ask_at(&everywhere, "/admin/status", None).await,
            401,
            "closed on other addresses without a token"
        );
        assert_eq!(ask_at(&everywhere, "/readyz", None).await, 200);
        let with = |tokens: &str| config(&format!("server: {{ adminTokens: [{tokens}] }}\n{KEYWORDS}"));
        engine.apply(with(OLD)).await;
        for path in ["/admin/status", "/admin/tools"] {
            for wrong in [None, Some(&*bearer(NEW)), Some(OLD), Some("Bearer "), Some(&*bearer(&OLD[1..]))] {
                assert_eq!(ask(path, wrong).await, 401, "{path} {wrong:?}");
            }
            assert_eq!(ask(path, Some(&bearer(OLD))).await, 200);
            assert_eq!(ask_at(&everywhere, path, Some(&bearer(OLD))).await, 200);
            assert_eq!(ask(path, Some(&format!("bearer {OLD}"))).await, 200);
        }
        for path in ["/healthz", "/readyz", "/metrics"] {
            assert_eq!(ask(path, None).await, 200, "{path}");
        }
        assert_eq!(ask("/admin/nothing", None).await, 404);
        engine.apply(with(&format!("{NEW}, {OLD}"))).await;
        for token in [OLD, NEW] {
            assert_eq!(
                ask("/admin/status", Some(&bearer(token))).await,
                200,
                "both tokens work during a rotation"
            );
        }
        engine.apply(with(NEW)).await;
        assert_eq!(ask("/admin/status", Some(&bearer(OLD))).await, 401);
    }

    #[tokio::test]
    async fn a_backend_that_is_down_takes_readiness_away_where_the_configuration_says_so() {
        const GONE: &str = "backends: [{ name: gone, url: \"http://127.0.0.1:1/mcp\" }]";
        let with = |mode: &str| {
            let operational = format!("operational: {{ failureHandling: {{ partialFailureMode: {mode} }} }}");
            format!("{operational}\n{GONE}\n{KEYWORDS}")
        };
        let engine = engine(&with("fail")).await;
        let router = router(Admin::new(engine.clone(), None), ([127, 0, 0, 1], 0).into());
        let ask = async || {
            let request = Request::get("/readyz").header(header::HOST, "localhost:9090");
            let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            let status = response.status().as_u16();
            let body = axum::body::to_bytes(response.into_body(), 1024).await.unwrap();
            (status, String::from_utf8(body.to_vec()).unwrap())
        };
        let deadline = Instant::now() + std::time::Duration::from_secs(20);
        while ask().await.0 == 200 {
            assert!(Instant::now() < deadline, "ready, and a backend is down");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(ask().await, (503, "not connected: gone\n".to_owned()));
        engine.apply(config(&with("best_effort"))).await;
        assert_eq!(ask().await.0, 200);
    }

    #[tokio::test]
    async fn pages_of_other_hosts_get_nothing_without_a_token() {
        let engine = engine(KEYWORDS).await;
        let router_at = |address: [u8; 4]| router(Admin::new(engine.clone(), None), (address, 9090).into());
        let ask = async |router: &Router, request: http::request::Builder| {
            let request = request.body(Body::empty()).unwrap();
            router.clone().oneshot(request).await.unwrap().status().as_u16()
        };
        let (here, everywhere) = (router_at([127, 0, 0, 1]), router_at([0, 0, 0, 0]));
        let rebound = |path: &str| Request::get(path).header(header::HOST, "evil.example");
        for path in ["/admin/status", "/metrics", "/healthz", "/readyz"] {
            assert_eq!(ask(&here, rebound(path)).await, 403, "{path}");
        }
        // Probes of a cluster use the address of the pod or the name of a service.
        assert_eq!(
            ask(&everywhere, Request::get("/readyz").header(header::HOST, "10.0.0.7:9090")).await,
            200
        );
        assert_eq!(
            ask(&everywhere, Request::get("/metrics").header(header::HOST, "vmcp-x-peers")).await,
            200
        );
        let forged = || {
            let post = Request::post("/admin/refresh").header(header::HOST, "localhost:9090");
            post.header(header::ORIGIN, "http://evil.example")
        };
        assert_eq!(ask(&here, forged()).await, 403, "a page must not refresh");
        engine.apply(config(&format!("server: {{ adminTokens: [{OLD}] }}\n{KEYWORDS}"))).await;
        let token = format!("Bearer {OLD}");
        assert_eq!(ask(&here, forged().header(header::AUTHORIZATION, &token)).await, 202);
        assert_eq!(ask(&here, rebound("/admin/status").header(header::AUTHORIZATION, token)).await, 200);
    }
}
