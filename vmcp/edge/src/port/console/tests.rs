//! Tests of the console's door: who gets in, what a form needs, which headers answers have.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use axum::response::Response;
use axum::{Extension, Router};
use futures::future::join_all;
use parking_lot::Mutex;
use tower::ServiceExt as _;
use vmcp_engine::engine::{Engine, Options};
use vmcp_engine::telemetry::calls::{Action, CallObserver, CallRecord};
use vmcp_engine::telemetry::metrics::RefusalLabels;
use vmcp_engine::testing::{KEYWORDS, config, engine, engine_with};

use crate::port::admin::Admin;
use crate::port::admin::guard::audit::OperatorAddress;
use crate::port::admin::routes::router;

const TOKEN: &str = "a token of enough characters";
const OIDC: &str = "{ console: oidc, adminTokens: [a token of enough characters], \
                    consoleSignIn: { issuerUrl: https://login.example.com, clientId: x, \
                    viewers: [a], redirectUri: \"https://vmcp.example.com/console/oidc/callback\" } }";
const LOOPBACK: [u8; 4] = [127, 0, 0, 1];
const ANYWHERE: [u8; 4] = [0, 0, 0, 0];
const PAGES: [&str; 12] = [
    "",
    "tools",
    "search?q=x",
    "wanted",
    "calls",
    "usage?days=7&server=x",
    "clients",
    "logins",
    "sent?who=bob",
    "connect",
    "configuration",
    "logs",
];

fn at(engine: &Engine, address: [u8; 4]) -> Router {
    router(Admin::new(engine.clone(), None), (address, 9090).into())
}

async fn serving(server: &str) -> Engine {
    let engine = engine(KEYWORDS).await;
    engine.apply(config(&format!("server: {server}\n{KEYWORDS}"))).await;
    engine
}

async fn send(router: &Router, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost:9090");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if method == "POST" {
        request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    }
    router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap()
}

async fn text(response: Response) -> String {
    String::from_utf8(to_bytes(response.into_body(), 1 << 20).await.unwrap().to_vec()).unwrap()
}

/// Returns the CSRF token of a page.
fn form_token(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"form_token\" value=\"").expect("a form");
    rest.split('"').next().unwrap().to_owned()
}

#[tokio::test]
async fn the_console_is_served_as_server_console_says() {
    let tokens = format!("{{ console: tokens, adminTokens: [{TOKEN}] }}");
    for (server, on_loopback, anywhere) in [
        ("{}", 200, 404),
        ("{ console: off }", 404, 404),
        (&*format!("{{ adminTokens: [{TOKEN}] }}"), 401, 404),
        (&*tokens, 401, 401),
        (OIDC, 401, 401),
    ] {
        let engine = serving(server).await;
        for (address, expected) in [(LOOPBACK, on_loopback), (ANYWHERE, anywhere)] {
            let router = at(&engine, address);
            for page in PAGES {
                let answer = send(&router, "GET", &format!("/console/{page}"), &[], "").await;
                assert_eq!(answer.status().as_u16(), expected, "{server} {address:?} {page}");
                let policy = answer.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
                assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
            }
        }
    }
}

/// A forwarded port of a pod: the port is on all addresses, and the sender on loopback.
#[tokio::test]
async fn a_port_on_all_addresses_serves_loopback_to_senders_on_loopback_who_sign_in() {
    let with_token = format!("{{ adminTokens: [{TOKEN}] }}");
    for (server, sender, expected) in [
        (&*with_token, "127.0.0.1", 401),
        (&with_token, "::1", 401),
        (&with_token, "::ffff:127.0.0.1", 401),
        (&with_token, "10.0.0.7", 404),
        ("{}", "127.0.0.1", 404),
        ("{ console: off }", "127.0.0.1", 404),
    ] {
        let router = at(&serving(server).await, ANYWHERE);
        let mut request = Request::get("/console/").header(header::HOST, "localhost:40123");
        if let Some(extensions) = request.extensions_mut() {
            extensions.insert(OperatorAddress(sender.parse().unwrap()));
        }
        let answer = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status().as_u16(), expected, "{server} {sender}");
    }
}

#[tokio::test]
async fn a_token_typed_once_becomes_a_cookie_that_opens_the_console_alone() {
    let engine = serving(&format!("{{ adminTokens: [{TOKEN}] }}")).await;
    let router = at(&engine, LOOPBACK);
    let wrong = send(&router, "POST", "/console/sign-in", &[], "token=another+token+of+some+length").await;
    assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED);
    assert!(!wrong.headers().contains_key(header::SET_COOKIE));
    let right =
        send(&router, "POST", "/console/sign-in", &[], &format!("token={}", TOKEN.replace(' ', "+"))).await;
    assert_eq!(right.status(), StatusCode::SEE_OTHER);
    let set = right.headers()[header::SET_COOKIE].to_str().unwrap().to_owned();
    assert!(set.contains("; HttpOnly; SameSite=Strict") && set.contains("Path=/console;"), "{set}");
    assert!(!set.contains("token"), "{set}");
    let cookie = set.split(';').next().unwrap();
    let with_cookie = [("cookie", cookie)];
    assert_eq!(send(&router, "GET", "/console/", &with_cookie, "").await.status(), StatusCode::OK);
    let report = send(&router, "GET", "/admin/status", &with_cookie, "").await;
    assert_eq!(report.status(), StatusCode::UNAUTHORIZED, "the admin API takes no cookie");
    let bearer = format!("Bearer {TOKEN}");
    let with_token = [("authorization", &*bearer)];
    assert_eq!(send(&router, "GET", "/console/", &with_token, "").await.status(), StatusCode::OK);
    let other = config(&format!("server: {{ adminTokens: [another token of some length] }}\n{KEYWORDS}"));
    engine.apply(other).await;
    let after = send(&router, "GET", "/console/", &with_cookie, "").await;
    assert_eq!(after.status(), StatusCode::UNAUTHORIZED, "the cookie ends with its token");
    assert!(text(after).await.contains("Your session has ended. Sign in again."));
    let order = send(&router, "POST", "/console/refresh?server=x", &with_cookie, "form_token=00").await;
    assert_eq!(order.status(), StatusCode::UNAUTHORIZED);
    assert!(text(order).await.contains("the order was not carried out"));
    let first = text(send(&router, "GET", "/console/logs?x=1", &[], "").await).await;
    assert!(!first.contains("has ended"), "a first visit had no session: {first}");
    assert!(first.contains("name=\"next\" value=\"logs?x=1\""), "{first}");
    for (next, location) in [
        ("logs%3Fx%3D1", "/console/logs?x=1"),
        ("%2F%2Fevil.example%2F", "/console///evil.example/"),
        ("x%0D%0Ay", "/console/"),
        ("", "/console/"),
    ] {
        let body = format!("token=another+token+of+some+length&next={next}");
        let signed_in = send(&router, "POST", "/console/sign-in", &[], &body).await;
        assert_eq!(signed_in.headers()[header::LOCATION], location, "{next}");
    }
}

#[tokio::test]
async fn a_refusal_is_a_page_for_browsers_and_words_for_programs() {
    let router = at(&serving("{}").await, LOOPBACK);
    for (path, status, words) in [
        ("tool?name=%3Cb%3Egone", 404, "no tool is called `"),
        ("server?server=gone", 404, "no server is called `gone`"),
        ("tools?from=minus", 400, "query string"),
        ("call?number=7", 404, "this call is not kept"),
    ] {
        let path = format!("/console/{path}");
        let page = send(&router, "GET", &path, &[("accept", "text/html,*/*;q=0.8")], "").await;
        assert_eq!(page.status().as_u16(), status, "{path}");
        let page = text(page).await;
        assert!(page.contains(words) && page.contains("<nav") && !page.contains("<b>"), "{path}: {page}");
        let plain = send(&router, "GET", &path, &[("accept", "*/*")], "").await;
        assert_eq!(plain.status().as_u16(), status, "{path}");
        let plain = text(plain).await;
        assert!(plain.contains(words) && !plain.contains("<nav"), "{path}: {plain}");
    }
}

#[tokio::test]
async fn a_person_who_signed_in_at_one_replica_reads_and_gives_orders_at_another() {
    let keyed = format!("{{ adminTokens: [{TOKEN}], sessionKeys: [one key of both replicas] }}");
    let alone = format!("{{ adminTokens: [{TOKEN}] }}");
    for (server, expected) in [(&keyed, StatusCode::OK), (&alone, StatusCode::UNAUTHORIZED)] {
        let (one, other) = (at(&serving(server).await, LOOPBACK), at(&serving(server).await, LOOPBACK));
        let body = format!("token={}", TOKEN.replace(' ', "+"));
        let signed_in = send(&one, "POST", "/console/sign-in", &[], &body).await;
        let cookie = signed_in.headers()[header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap();
        let with_cookie = [("cookie", cookie)];
        let page = text(send(&one, "GET", "/console/", &with_cookie, "").await).await;
        let seen = send(&other, "GET", "/console/", &with_cookie, "").await;
        assert_eq!(seen.status(), expected, "{server}");
        let body = format!("form_token={}", form_token(&page));
        let ordered = send(&other, "POST", "/console/refresh?server=x", &with_cookie, &body).await;
        let is_refused = ordered.status() == StatusCode::UNAUTHORIZED;
        assert_eq!(is_refused, expected != StatusCode::OK, "{server}: {}", ordered.status());
        assert_ne!(ordered.status(), StatusCode::FORBIDDEN, "{server}: the form of one is that of both");
    }
}

#[tokio::test]
async fn an_order_needs_the_form_token_of_its_own_session() {
    let engine = serving(&format!("{{ adminTokens: [{TOKEN}] }}")).await;
    let router = at(&engine, LOOPBACK);
    let orders = [
        "refresh?server=x",
        "restart?server=x",
        "approve?server=x&tool=y",
        "forget?server=x&tool=y",
        "enable?server=x",
        "disable?server=x",
        "try?server=x&tool=y",
        "try/answer?server=x&tool=y&call=z",
        "logins/forget?server=x",
        "logins/sign-in?server=x",
        "logins/sign-out?server=x",
    ];
    let token = form_token(&signed_in_page(&router).await);
    let server = "backends: [{ name: x, url: \"http://127.0.0.1:1/mcp\" }]";
    engine.apply(config(&format!("{server}\n{KEYWORDS}"))).await;
    for order in orders {
        for body in ["", "form_token=", "form_token=00", &*format!("form_token={token}")] {
            let refused = send(&router, "POST", &format!("/console/{order}"), &[], body).await;
            assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{order} {body}");
        }
        let foreign = [("sec-fetch-site", "cross-site")];
        let refused = send(&router, "POST", &format!("/console/{order}"), &foreign, "").await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{order}");
        let seen = send(&router, "GET", &format!("/console/{order}"), &[], "").await.status();
        assert!(seen.is_client_error(), "a link carries out nothing: {order} {seen}");
    }
    let long = format!("form_token={}", "x".repeat(300 << 10));
    let refused = send(&router, "POST", "/console/refresh?server=x", &[], &long).await;
    assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let own = form_token(&text(send(&router, "GET", "/console/server?server=x", &[], "").await).await);
    let body = format!("form_token={own}");
    let done = send(&router, "POST", "/console/refresh?server=x", &[], &body).await;
    assert_eq!(done.status(), StatusCode::SEE_OTHER, "the visitor's own token");
}

#[tokio::test]
async fn a_viewer_reads_and_gives_no_orders() {
    const VIEWER: &str = "a viewer's token of enough characters";
    let engine = serving(&format!("{{ adminTokens: [{TOKEN}], viewerTokens: [\"{VIEWER}\"] }}")).await;
    let router = at(&engine, LOOPBACK);
    let body = url::form_urlencoded::Serializer::new(String::new()).append_pair("token", VIEWER).finish();
    let signed_in = send(&router, "POST", "/console/sign-in", &[], &body).await;
    assert_eq!(signed_in.status(), StatusCode::SEE_OTHER);
    let cookie = signed_in.headers()[header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap();
    let bearer = format!("Bearer {VIEWER}");
    for viewer in [[("cookie", cookie)], [("authorization", &*bearer)]] {
        let page = send(&router, "GET", "/console/", &viewer, "").await;
        assert_eq!(page.status(), StatusCode::OK);
        let refused = send(&router, "POST", "/console/refresh?server=x", &viewer, "form_token=00").await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
        assert!(text(refused).await.contains("your role is viewer"), "the role decides, before the form");
        let report = send(&router, "GET", "/admin/status", &viewer, "").await;
        assert_eq!(report.status(), StatusCode::UNAUTHORIZED, "the admin API takes no viewer");
    }
    let page = text(send(&router, "GET", "/console/", &[("cookie", cookie)], "").await).await;
    let body = format!("form_token={}", form_token(&page));
    let out = send(&router, "POST", "/console/sign-out", &[("cookie", cookie)], &body).await;
    assert_eq!(out.status(), StatusCode::SEE_OTHER, "a viewer may sign out");
}

/// Keeps the actions that it is told of.
#[derive(Debug, Default)]
struct SeenActions(Mutex<Vec<String>>);

impl CallObserver for SeenActions {
    fn observe(&self, _: &CallRecord) {}

    fn acted(&self, action: &Action<'_>) {
        let Action { name, target, result, actor, .. } = action;
        let (target, actor) = (target.unwrap_or_default(), actor.unwrap_or_default());
        self.0.lock().push(format!("{name} {target} {result} by {actor}"));
    }
}

#[tokio::test]
async fn each_order_is_on_record_with_who_gave_it_and_how_it_ended() {
    const VIEWER: &str = "a viewer's token of enough characters";
    let seen = Arc::<SeenActions>::default();
    let options = Options { observers: vec![Arc::clone(&seen) as _], ..Options::default() };
    let engine = engine_with(KEYWORDS, options).await;
    let server = format!("{{ adminTokens: [{TOKEN}], viewerTokens: [\"{VIEWER}\"] }}");
    let backend = "backends: [{ name: x, url: \"http://127.0.0.1:1/mcp\" }]";
    engine.apply(config(&format!("server: {server}\n{backend}\n{KEYWORDS}"))).await;
    let router = at(&engine, LOOPBACK).layer(Extension(OperatorAddress(LOOPBACK.into())));
    let (operator, viewer) = (format!("Bearer {TOKEN}"), format!("Bearer {VIEWER}"));
    let operator = [("authorization", &*operator)];
    let page = text(send(&router, "GET", "/console/server?server=x", &operator, "").await).await;
    let body = format!("form_token={}", form_token(&page));
    for (order, headers, body, expected, actor) in [
        ("refresh?server=x", &operator, &*body, "303", "admin token "),
        ("refresh?server=x", &operator, "form_token=00", "403", "admin token "),
        ("refresh?server=x", &[("authorization", &*viewer)], "", "403", "viewer token "),
        ("logins/forget?server=x", &[("authorization", &*viewer)], "", "403", "viewer token "),
    ] {
        let answer = send(&router, "POST", &format!("/console/{order}"), headers, body).await;
        assert_eq!(answer.status().as_str(), expected, "{order}");
        let last = seen.0.lock().last().cloned().unwrap_or_default();
        let begin = format!("POST /console/{} {expected} by {actor}", order.replace('?', " "));
        assert!(last.starts_with(&begin), "{last}");
        assert!(!last.contains(TOKEN) && !last.contains(VIEWER), "{last}");
    }
}

#[tokio::test]
async fn a_sign_in_at_the_provider_needs_the_browser_in_which_it_began() {
    let sign_in = "{ issuerUrl: \"http://127.0.0.1:1\", clientId: x, viewers: [a], insecureAllowHttp: true, \
                   allowPrivateIPs: true, redirectUri: \"http://localhost:9090/console/oidc/callback\" }";
    let engine = serving(&format!("{{ console: oidc, consoleSignIn: {sign_in} }}")).await;
    for address in [LOOPBACK, ANYWHERE] {
        let router = at(&engine, address);
        let closed = send(&router, "GET", "/console/", &[], "").await;
        assert_eq!(closed.status(), StatusCode::UNAUTHORIZED, "{address:?}");
        let page = text(closed).await;
        assert!(page.contains("href=\"/console/oidc/start\"") && !page.contains("<form"), "{page}");
    }
    let router = at(&engine, LOOPBACK);
    // The provider sends the browser back from its own site; every other page stays closed to that.
    let cross_site = [("sec-fetch-site", "cross-site")];
    let returned = send(&router, "GET", "/console/oidc/callback?state=a&code=b", &cross_site, "").await;
    assert_eq!(returned.status(), StatusCode::BAD_REQUEST, "no attempt of this browser");
    assert!(!returned.headers().contains_key(header::SET_COOKIE));
    assert!(text(returned).await.contains("began in another browser"));
    for path in ["/console/", "/console/oidc/start"] {
        let refused = send(&router, "GET", path, &cross_site, "").await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{path}");
    }
    let forged = [("cookie", "vmcp_console_9090_attempt=9999999999.00.00")];
    let returned = send(&router, "GET", "/console/oidc/callback?state=a&code=b", &forged, "").await;
    assert_eq!(returned.status(), StatusCode::BAD_REQUEST);
    let begun = send(&router, "GET", "/console/oidc/start", &[], "").await;
    assert_eq!(begun.status(), StatusCode::BAD_GATEWAY, "the provider does not answer");
}

/// Returns a page of a person who signed in, whose forms have a token of that session.
async fn signed_in_page(router: &Router) -> String {
    let body = format!("token={}", TOKEN.replace(' ', "+"));
    let signed_in = send(router, "POST", "/console/sign-in", &[], &body).await;
    let cookie = signed_in.headers()[header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap();
    text(send(router, "GET", "/console/", &[("cookie", cookie)], "").await).await
}

#[tokio::test]
async fn wrong_tokens_are_slowed_and_counted_and_a_first_visit_is_not() {
    let engine = serving(&format!("{{ adminTokens: [{TOKEN}] }}")).await;
    let router = at(&engine, LOOPBACK);
    let labels = RefusalLabels { reason: "admin_token" };
    let count = || engine.metrics().client_requests_refused.get_or_create(&labels).get();
    let visit = send(&router, "GET", "/console/", &[], "").await;
    assert_eq!((visit.status(), count()), (StatusCode::UNAUTHORIZED, 0));
    let order = send(&router, "POST", "/console/refresh?server=x", &[], "").await;
    assert_eq!((order.status(), count()), (StatusCode::UNAUTHORIZED, 1));
    let wrong = [("authorization", "Bearer another token of some length")];
    let started = Instant::now();
    let guess = send(&router, "GET", "/console/", &wrong, "").await;
    assert_eq!((guess.status(), count()), (StatusCode::UNAUTHORIZED, 2));
    assert!(started.elapsed() >= Duration::from_millis(400), "{:?}", started.elapsed());
    let flood = join_all((0..30).map(|_| send(&router, "GET", "/console/", &wrong, ""))).await;
    assert!(flood.iter().any(|answer| answer.status() == StatusCode::TOO_MANY_REQUESTS));
}

#[tokio::test]
async fn forms_to_sign_in_that_never_arrive_hold_eight_places_at_most() {
    let engine = serving(&format!("{{ adminTokens: [{TOKEN}] }}")).await;
    let router = at(&engine, LOOPBACK);
    let silent = || {
        let request = Request::post("/console/sign-in").header(header::HOST, "localhost:9090");
        let body = Body::from_stream(futures::stream::pending::<Result<bytes::Bytes, std::io::Error>>());
        router.clone().oneshot(request.body(body).unwrap())
    };
    let mut held: Vec<_> = (0..8).map(|_| Box::pin(silent())).collect();
    for request in &mut held {
        assert!(futures::poll!(request).is_pending(), "eight are read");
    }
    assert_eq!(silent().await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    drop(held);
    let right = format!("token={}", TOKEN.replace(' ', "+"));
    let signed_in = send(&router, "POST", "/console/sign-in", &[], &right).await;
    assert_eq!(signed_in.status(), StatusCode::SEE_OTHER, "the places are free again");
}

#[tokio::test]
async fn pages_of_other_hosts_and_origins_read_nothing() {
    let engine = serving("{}").await;
    let router = at(&engine, LOOPBACK);
    for headers in [[("sec-fetch-site", "cross-site")], [("origin", "http://evil.example")]] {
        let refused = send(&router, "GET", "/console/", &headers, "").await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{headers:?}");
    }
    let rebound = Request::get("/console/").header(header::HOST, "evil.example").body(Body::empty()).unwrap();
    assert_eq!(router.clone().oneshot(rebound).await.unwrap().status(), StatusCode::FORBIDDEN);
    let here = send(&router, "GET", "/console/", &[("sec-fetch-site", "same-origin")], "").await;
    assert_eq!(here.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_proxy_passes_on_the_host_of_the_redirect_uri_to_the_console_alone() {
    const OWN: &[&str] = &["vmcp.example.com"];
    let engine = serving(OIDC).await;
    let router = at(&engine, LOOPBACK);
    for (method, path, hosts, origin, expected) in [
        ("GET", "/console/", OWN, "", 401),
        ("POST", "/console/sign-in", OWN, "https://vmcp.example.com", 401),
        ("POST", "/console/sign-in", OWN, "https://evil.example", 403),
        ("POST", "/console/sign-in", OWN, "http://localhost:9090", 403),
        ("GET", "/console/", &["evil.example"], "", 403),
        ("GET", "/console/", &["vmcp.example.com:8443"], "", 403),
        ("GET", "/console/", &["vmcp.example.com", "vmcp.example.com"], "", 400),
        ("GET", "/admin/status", OWN, "", 403),
    ] {
        let mut request = Request::builder().method(method).uri(path);
        for host in hosts {
            request = request.header(header::HOST, *host);
        }
        if method == "POST" {
            request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
            request = request.header(header::ORIGIN, origin);
        }
        let answer = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status().as_u16(), expected, "{method} {path} {hosts:?} {origin}");
    }
}

#[tokio::test]
async fn a_provider_that_never_answers_locks_no_holder_of_a_token_out() {
    // The kernel accepts the connections; nothing answers them.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let issuer = format!("http://{}", silent.local_addr().unwrap());
    let sign_in = format!(
        "{{ issuerUrl: \"{issuer}\", clientId: x, viewers: [a], insecureAllowHttp: true, allowPrivateIPs: true, \
         redirectUri: \"http://localhost:9090/console/oidc/callback\" }}"
    );
    let server = format!("{{ console: oidc, adminTokens: [{TOKEN}], consoleSignIn: {sign_in} }}");
    let engine = serving(&server).await;
    let router = at(&engine, LOOPBACK);
    let begun = || send(&router, "GET", "/console/oidc/start", &[], "");
    let mut held: Vec<_> = (0..8).map(|_| Box::pin(begun())).collect();
    for request in &mut held {
        assert!(futures::poll!(request).is_pending(), "eight ask the provider");
    }
    assert_eq!(begun().await.status(), StatusCode::TOO_MANY_REQUESTS);
    let right = format!("token={}", TOKEN.replace(' ', "+"));
    let signed_in = send(&router, "POST", "/console/sign-in", &[], &right).await;
    assert_eq!(signed_in.status(), StatusCode::SEE_OTHER, "tokens have places of their own");
}

#[tokio::test]
async fn a_browser_is_sent_from_the_root_to_the_console_and_others_read_the_routes() {
    let engine = serving("{}").await;
    let browser = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    let sent = send(&at(&engine, LOOPBACK), "GET", "/", &browser, "").await;
    assert_eq!(
        (sent.status(), sent.headers()[header::LOCATION].to_str().unwrap()),
        (StatusCode::SEE_OTHER, "/console/")
    );
    assert_eq!(send(&at(&engine, LOOPBACK), "GET", "/", &[], "").await.status(), StatusCode::OK);
    assert_eq!(send(&at(&engine, ANYWHERE), "GET", "/", &browser, "").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_profile_alone_is_a_client_that_searches() {
    let router = at(&serving("{}").await, LOOPBACK);
    let page = text(send(&router, "GET", "/console/search?q=x&profile=gone", &[], "").await).await;
    assert!(page.contains("profile: none is called `gone`"), "{page}");
}

#[tokio::test]
async fn usage_looks_back_a_number_of_days_within_bounds() {
    let router = at(&serving("{}").await, LOOPBACK);
    for (days, expected) in
        [("", 200), ("?days=7", 200), ("?days=365", 200), ("?days=0", 400), ("?days=366", 400)]
    {
        let answer = send(&router, "GET", &format!("/console/usage{days}"), &[], "").await;
        assert_eq!(answer.status().as_u16(), expected, "{days}");
        let page = text(answer).await;
        assert!(expected == 200 || page.contains("days: write a number from 1 to 365"), "{page}");
        assert!(expected == 400 || page.contains("No call was counted in this time."), "{page}");
    }
}

#[tokio::test]
async fn the_first_load_is_small() {
    let engine = serving("{}").await;
    let router = at(&engine, LOOPBACK);
    let mut total = 0;
    for path in ["/console/", "/console/console.css", "/console/console.js"] {
        let answer = send(&router, "GET", path, &[], "").await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        total += text(answer).await.len();
    }
    assert!(total < 150_000, "{total} bytes, uncompressed");
}
