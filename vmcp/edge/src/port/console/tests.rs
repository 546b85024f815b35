//! Tests of the console's door: who gets in, what a form needs, which headers answers have.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use axum::response::Response;
use tower::ServiceExt as _;
use vmcp_engine::engine::Engine;
use vmcp_engine::testing::{KEYWORDS, config, engine};

use crate::port::admin::{Admin, router};

const TOKEN: &str = "a token of enough characters";
const LOOPBACK: [u8; 4] = [127, 0, 0, 1];
const ANYWHERE: [u8; 4] = [0, 0, 0, 0];
const PAGES: [&str; 7] = ["", "tools", "search?q=x", "calls", "connect", "configuration", "logs"];

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
    engine
        .apply(config(&format!("server: {{ adminTokens: [another token of some length] }}\n{KEYWORDS}")))
        .await;
    let after = send(&router, "GET", "/console/", &with_cookie, "").await;
    assert_eq!(after.status(), StatusCode::UNAUTHORIZED, "the cookie ends with its token");
}

#[tokio::test]
async fn an_order_needs_the_form_token_of_its_own_session() {
    let engine = serving("{}").await;
    let router = at(&engine, LOOPBACK);
    let orders = ["refresh?server=x", "restart?server=x", "approve?server=x&tool=y", "try?server=x&tool=y"];
    let token = form_token(&signed_in_page(&engine).await);
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
}

/// Returns a page of a person who signed in at another console, whose forms have a token of theirs.
async fn signed_in_page(engine: &Engine) -> String {
    engine.apply(config(&format!("server: {{ adminTokens: [{TOKEN}] }}\n{KEYWORDS}"))).await;
    let other = at(engine, LOOPBACK);
    let body = format!("token={}", TOKEN.replace(' ', "+"));
    let signed_in = send(&other, "POST", "/console/sign-in", &[], &body).await;
    let cookie =
        signed_in.headers()[header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
    let page = text(send(&other, "GET", "/console/", &[("cookie", &cookie)], "").await).await;
    engine.apply(config(KEYWORDS)).await;
    page
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
