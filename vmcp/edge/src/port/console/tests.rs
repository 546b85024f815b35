//! Tests of the console's routes: who is served, which headers answers have; `sign_in`, `orders` and `roles`
//! have those of signing in, of forms, and of each route for each role.

mod orders;
mod roles;
mod sign_in;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use axum::response::Response;
use tower::ServiceExt as _;
use vmcp_engine::engine::Engine;
use vmcp_engine::testing::{KEYWORDS, config, engine};

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

/// Signs in with a token. Returns the cookie of the session, as a request sends it back.
async fn session_of(router: &Router, token: &str) -> String {
    let body = url::form_urlencoded::Serializer::new(String::new()).append_pair("token", token).finish();
    let signed_in = send(router, "POST", "/console/sign-in", &[], &body).await;
    assert_eq!(signed_in.status(), StatusCode::SEE_OTHER);
    let set = signed_in.headers()[header::SET_COOKIE].to_str().unwrap();
    set.split(';').next().unwrap().to_owned()
}

/// Returns a page of a person who signed in, whose forms have a token of that session.
async fn signed_in_page(router: &Router) -> String {
    let cookie = session_of(router, TOKEN).await;
    text(send(router, "GET", "/console/", &[("cookie", &*cookie)], "").await).await
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
