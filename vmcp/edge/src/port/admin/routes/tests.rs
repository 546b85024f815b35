//! Tests of the admin port: tokens, readiness, reports, foreign hosts.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use parking_lot::Mutex;
use tower::ServiceExt as _;

use super::*;
use crate::port::admin::guard::audit::OperatorAddress;
use vmcp_engine::engine::Options;
use vmcp_engine::telemetry::calls::{Action, CallObserver, CallRecord};
use vmcp_engine::telemetry::metrics::RefusalLabels;
use vmcp_engine::testing::{KEYWORDS, config, engine, engine_with};

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
        let challenge = response.headers().get(header::WWW_AUTHENTICATE).map(|value| value.to_str().unwrap());
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
    for path in ["/", "/healthz", "/readyz", "/metrics"] {
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
async fn metrics_want_a_token_once_one_is_configured_and_it_opens_nothing_else() {
    let engine = engine(KEYWORDS).await;
    let router = router(Admin::new(engine.clone(), None), ([0, 0, 0, 0], 0).into());
    let ask = async |path: &str, token: Option<&str>| {
        let mut request = Request::get(path).header(header::HOST, "10.0.0.7:9090");
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status().as_u16()
    };
    assert_eq!(ask("/metrics", None).await, 200, "open until a token is configured");
    let tokens = format!("server: {{ adminTokens: [{OLD}], metricsTokens: [{NEW}] }}\n{KEYWORDS}");
    engine.apply(config(&tokens)).await;
    assert_eq!(ask("/metrics", None).await, 401);
    assert_eq!(ask("/metrics", Some(&NEW[1..])).await, 401);
    assert_eq!(ask("/metrics", Some(NEW)).await, 200);
    assert_eq!(ask("/metrics", Some(OLD)).await, 200, "operators may read metrics");
    assert_eq!(ask("/admin/status", Some(NEW)).await, 401, "a scraper is no operator");
    for probe in ["/healthz", "/readyz"] {
        assert_eq!(ask(probe, None).await, 200, "{probe}");
    }
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
    let deadline = Instant::now() + Duration::from_secs(20);
    while ask().await.0 == 200 {
        assert!(Instant::now() < deadline, "ready, and a backend is down");
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(ask().await, (503, "not connected: gone\n".to_owned()));
    engine.apply(config(&with("best_effort"))).await;
    assert_eq!(ask().await.0, 200);
}

#[tokio::test]
async fn a_pinned_tool_that_no_server_has_is_reported() {
    let text = "optimizer: { pinnedTools: [time_nosuch], embeddings: { provider: none } }";
    let router = router(Admin::new(engine(text).await, None), ([127, 0, 0, 1], 0).into());
    let request = Request::get("/admin/status").header(header::HOST, "localhost:9090");
    let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let body = axum::body::to_bytes(response.into_body(), 64 * 1024).await.unwrap();
    let report = String::from_utf8(body.to_vec()).unwrap();
    assert!(report.contains("time_nosuch: pinned (optimizer.pinnedTools), but no server has it"), "{report}");
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
    assert_eq!(ask(&everywhere, Request::get("/readyz").header(header::HOST, "10.0.0.7:9090")).await, 200);
    assert_eq!(ask(&everywhere, Request::get("/metrics").header(header::HOST, "vmcp-x-peers")).await, 200);
    let forged = || {
        let post = Request::post("/admin/refresh").header(header::HOST, "localhost:9090");
        post.header(header::ORIGIN, "http://evil.example")
    };
    assert_eq!(ask(&here, forged()).await, 403, "a page must not refresh");
    // Pages of other ports of this machine are other programs' pages.
    let page = |origin: &'static str| {
        let post = Request::post("/admin/refresh").header(header::HOST, "localhost:9090");
        post.header(header::ORIGIN, origin)
    };
    for foreign in ["http://localhost:3000", "http://localhost", "http://127.0.0.1:9090", "null"] {
        assert_eq!(ask(&here, page(foreign)).await, 403, "{foreign}");
    }
    assert_eq!(ask(&here, page("http://localhost:9090")).await, 202);
    for (site, status) in [("cross-site", 403), ("same-site", 403), ("same-origin", 202), ("none", 202)] {
        let post = Request::post("/admin/refresh").header(header::HOST, "localhost:9090");
        assert_eq!(ask(&here, post.header("sec-fetch-site", site)).await, status, "{site}");
    }
    engine.apply(config(&format!("server: {{ adminTokens: [{OLD}] }}\n{KEYWORDS}"))).await;
    let token = format!("Bearer {OLD}");
    assert_eq!(ask(&here, forged().header(header::AUTHORIZATION, &token)).await, 202);
    assert_eq!(ask(&here, rebound("/admin/status").header(header::AUTHORIZATION, token)).await, 200);
}

#[tokio::test]
async fn clients_of_a_proxy_on_this_machine_need_a_token() {
    let engine = engine(KEYWORDS).await;
    let here = router(Admin::new(engine.clone(), None), ([127, 0, 0, 1], 9090).into());
    let ask = async |method: &str, path: &str, header: Option<&str>| {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost:9090");
        if let Some(header) = header {
            request = request.header(header, "198.51.100.7");
        }
        let response = here.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        response.status().as_u16()
    };
    for header in ["x-forwarded-for", "x-forwarded-prefix", "forwarded", "via"] {
        assert_eq!(ask("GET", "/admin/status", Some(header)).await, 401, "{header}");
        assert_eq!(ask("POST", "/admin/refresh", Some(header)).await, 401, "{header}");
        assert_eq!(ask("GET", "/console/", Some(header)).await, 401, "{header}");
        assert_eq!(ask("GET", "/readyz", Some(header)).await, 200, "{header}");
    }
    for (method, path, status) in [("GET", "/admin/status", 200), ("GET", "/console/", 200)] {
        assert_eq!(ask(method, path, None).await, status, "{path}");
    }
}

#[tokio::test]
async fn a_tool_without_a_counted_call_is_not_found() {
    let router = router(Admin::new(engine(KEYWORDS).await, None), ([127, 0, 0, 1], 0).into());
    let ask = async |path: &str| {
        let request = Request::get(path).header(header::HOST, "localhost:9090");
        let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1024).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    };
    let missing = ask("/admin/tool-metrics?server=jira&tool=search").await;
    assert_eq!(missing, (404, "no call of `search` was counted\n".to_owned()));
    assert_eq!(ask("/admin/tool-metrics").await.0, 200);
}

#[tokio::test]
async fn an_order_with_a_misspelled_parameter_is_refused() {
    let router = router(Admin::new(engine(KEYWORDS).await, None), ([127, 0, 0, 1], 0).into());
    let order = async |path: &str| {
        let request = Request::post(path).header(header::HOST, "localhost:9090").body(Body::empty()).unwrap();
        router.clone().oneshot(request).await.unwrap().status().as_u16()
    };
    let approve = "/admin/tools/approve?backend=jira&tool=search";
    assert_eq!(order(&format!("{approve}&hash=a")).await, 409, "no definition waits");
    assert_eq!(order(&format!("{approve}&hahs=a")).await, 400);
    for path in ["/admin/sessions/end", "/admin/sessions/allow"] {
        assert_eq!(order(&format!("{path}?subject=alice&isuer=https://idp.example")).await, 400, "{path}");
    }
}

#[tokio::test]
async fn who_changed_the_log_level_to_what_is_on_record() {
    // A process without a log refuses the change.
    let _log = vmcp_engine::telemetry::recent::filter::<tracing::subscriber::NoSubscriber>();
    let seen = Arc::<SeenActions>::default();
    let options = Options { observers: vec![Arc::clone(&seen) as _], ..Options::default() };
    let engine = engine_with(&format!("server: {{ adminTokens: [{OLD}] }}\n{KEYWORDS}"), options).await;
    let router = router(Admin::new(engine, None), ([0, 0, 0, 0], 9090).into());
    let put = Request::put("/admin/log-level?level=debug&module=vmcp_edge").header(header::HOST, "vmcp:9090");
    let mut request = put.header(header::AUTHORIZATION, format!("Bearer {OLD}")).body(Body::empty()).unwrap();
    request.extensions_mut().insert(OperatorAddress([10, 0, 0, 7].into()));
    assert_eq!(router.oneshot(request).await.unwrap().status(), 200);
    let actions = seen.0.lock();
    let (action, begin) = (&actions[0], "PUT /admin/log-level level=debug&module=vmcp_edge 200 10.0.0.7 ");
    assert!(action.starts_with(begin) && action.contains(" Some(\"admin token "), "{action}");
}

#[tokio::test]
async fn wrong_tokens_are_slowed_counted_and_on_record_and_orders_name_their_operator() {
    let seen = Arc::<SeenActions>::default();
    let options = Options { observers: vec![Arc::clone(&seen) as _], ..Options::default() };
    let engine = engine_with(&format!("server: {{ adminTokens: [{OLD}] }}\n{KEYWORDS}"), options).await;
    let router = router(Admin::new(engine.clone(), None), ([0, 0, 0, 0], 9090).into());
    let ask = async |token: &str| {
        let post = Request::post("/admin/refresh?backend=x").header(header::HOST, "vmcp:9090");
        let mut request =
            post.header(header::AUTHORIZATION, format!("Bearer {token}")).body(Body::empty()).unwrap();
        request.extensions_mut().insert(OperatorAddress([10, 0, 0, 7].into()));
        router.clone().oneshot(request).await.unwrap().status().as_u16()
    };
    let started = Instant::now();
    assert_eq!(ask(NEW).await, 401);
    assert!(started.elapsed() >= Duration::from_millis(400), "{:?}", started.elapsed());
    let flood = futures::future::join_all((0..30).map(|_| ask(NEW))).await;
    assert!(flood.contains(&429), "{flood:?}");
    assert_eq!(ask(OLD).await, 404, "the right token is not slowed, and the backend is unknown");
    let labels = RefusalLabels { reason: "admin_token" };
    assert_eq!(engine.metrics().client_requests_refused.get_or_create(&labels).get(), 31);
    let actions = seen.0.lock();
    assert_eq!(actions.len(), 32);
    assert_eq!(actions[0], "admin.refused /admin/refresh wrong token 10.0.0.7 None");
    let order = &actions[31];
    assert!(order.starts_with("POST /admin/refresh backend=x 404 10.0.0.7 Some(\"admin token "), "{order}");
    assert!(!order.contains(OLD));
}

#[tokio::test]
async fn an_order_whose_operator_hangs_up_is_on_record() {
    let seen = Arc::<SeenActions>::default();
    let options = Options { observers: vec![Arc::clone(&seen) as _], ..Options::default() };
    let admin = Admin::new(engine_with(KEYWORDS, options).await, None);
    let router = Router::new()
        .route("/admin/restart", post(std::future::pending::<()>))
        .layer(middleware::from_fn_with_state(admin, audit::record));
    let mut request = Request::post("/admin/restart?backend=x").body(Body::empty()).unwrap();
    request.extensions_mut().insert(OperatorAddress([10, 0, 0, 7].into()));
    let order = router.oneshot(request);
    tokio::time::timeout(Duration::from_millis(50), order).await.unwrap_err();
    let actions = seen.0.lock();
    assert_eq!(actions.len(), 1, "{actions:?}");
    let begin = "POST /admin/restart backend=x cancelled 10.0.0.7 ";
    assert!(actions[0].starts_with(begin), "{actions:?}");
}

/// Keeps the actions that it is told of.
#[derive(Debug, Default)]
struct SeenActions(Mutex<Vec<String>>);

impl CallObserver for SeenActions {
    fn observe(&self, _: &CallRecord) {}

    fn acted(&self, action: &Action<'_>) {
        let Action { name, target, result, principal, actor, .. } = action;
        let (target, address) = (target.unwrap_or_default(), principal.address.unwrap());
        self.0.lock().push(format!("{name} {target} {result} {address} {actor:?}"));
    }
}

#[tokio::test]
async fn a_misspelled_hash_approves_nothing() {
    let router = report_routes(Admin::new(engine(KEYWORDS).await, None));
    for (query, expected) in [
        ("backend=s&tool=t", 404),
        ("backend=s&tool=t&hash=00", 409),
        ("backend=s&tool=t&hsh=00", 400),
        ("backend=s", 400),
    ] {
        let request = Request::post(format!("/admin/tools/approve?{query}")).body(Body::empty()).unwrap();
        let status = router.clone().oneshot(request).await.unwrap().status();
        assert_eq!(status.as_u16(), expected, "{query}");
    }
}
