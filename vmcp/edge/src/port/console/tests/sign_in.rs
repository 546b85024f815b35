//! Tests of signing in: with a token, at the provider, at several replicas, and under a flood.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use futures::future::join_all;
use tower::ServiceExt as _;
use vmcp_engine::random::now;
use vmcp_engine::telemetry::metrics::RefusalLabels;
use vmcp_engine::testing::{KEYWORDS, config};

use super::{ANYWHERE, LOOPBACK, OIDC, TOKEN, at, form_token, send, serving, session_of, text};
use crate::port::console::session_key::SessionKeys;

#[tokio::test]
async fn a_token_typed_once_becomes_a_cookie_that_opens_the_console_alone() {
    let engine = serving(&format!("{{ adminTokens: [{TOKEN}] }}")).await;
    let router = at(&engine, LOOPBACK);
    let wrong = send(&router, "POST", "/console/sign-in", &[], "token=another+token+of+some+length").await;
    assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED);
    assert!(!wrong.headers().contains_key(header::SET_COOKIE));
    let again = send(&router, "GET", "/console/sign-in", &[], "").await;
    assert_eq!(again.status(), StatusCode::SEE_OTHER);
    assert_eq!(again.headers()[header::LOCATION], "/console/");
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
        ("%2F%2Fevil.example%2F", "/console/"),
        ("..%2Fadmin%2Fstatus", "/console/"),
        ("%252e%252e%2Fx", "/console/"),
        ("%5Cevil.example", "/console/"),
        ("x%0D%0Ay", "/console/"),
        ("", "/console/"),
    ] {
        let body = format!("token=another+token+of+some+length&next={next}");
        let signed_in = send(&router, "POST", "/console/sign-in", &[], &body).await;
        assert_eq!(signed_in.headers()[header::LOCATION], location, "{next}");
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
    for (next, link) in [
        ("", "href=\"/console/oidc/start\""),
        ("?next=tools%3Fq%3Dx", "href=\"/console/oidc/start?next=tools%3Fq%3Dx\""),
        ("?next=%2F%2Fevil.example", "href=\"/console/oidc/start\""),
    ] {
        let begun = send(&router, "GET", &format!("/console/oidc/start{next}"), &[], "").await;
        assert_eq!(begun.status(), StatusCode::BAD_GATEWAY, "the provider does not answer");
        let page = text(begun).await;
        assert!(page.contains(link), "{next}: {page}");
    }
    let wanted = text(send(&router, "GET", "/console/tools?q=x", &[], "").await).await;
    assert!(wanted.contains("href=\"/console/oidc/start?next=tools%3Fq%3Dx\""), "{wanted}");
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
async fn signing_out_ends_the_session_and_no_copy_of_its_cookie_opens_the_console() {
    let keyed = format!("{{ adminTokens: [{TOKEN}], sessionKeys: [one key of both replicas] }}");
    let (here, there) = (serving(&keyed).await, serving(&keyed).await);
    let (router, other) = (at(&here, LOOPBACK), at(&there, LOOPBACK));
    let (ended, kept) = (session_of(&router, TOKEN).await, session_of(&router, TOKEN).await);
    let (ended, kept) = ([("cookie", &*ended)], [("cookie", &*kept)]);
    let page = text(send(&router, "GET", "/console/", &ended, "").await).await;
    let body = format!("form_token={}", form_token(&page));
    let out = send(&router, "POST", "/console/sign-out", &ended, &body).await;
    assert_eq!(out.status(), StatusCode::SEE_OTHER);
    // As replicas exchange their orders.
    there.revocations().merge(&here.revocations().all());
    for router in [&router, &other] {
        let copied = send(router, "GET", "/console/", &ended, "").await;
        assert_eq!(copied.status(), StatusCode::UNAUTHORIZED);
        assert!(text(copied).await.contains("Your session has ended"));
        let order = send(router, "POST", "/console/refresh?server=x", &ended, &body).await;
        assert_eq!(order.status(), StatusCode::UNAUTHORIZED);
        let kept = send(router, "GET", "/console/", &kept, "").await;
        assert_eq!(kept.status(), StatusCode::OK, "another sign-in of the same second");
    }
}

#[tokio::test]
async fn a_token_typed_on_a_page_of_https_makes_a_cookie_of_https() {
    let router = at(&serving(OIDC).await, LOOPBACK);
    for (host, scheme, is_secure) in [("vmcp.example.com", "https", true), ("localhost:9090", "http", false)]
    {
        let request = Request::post("/console/sign-in").header(header::HOST, host);
        let request = request.header(header::ORIGIN, format!("{scheme}://{host}"));
        let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        let body = Body::from(format!("token={}", TOKEN.replace(' ', "+")));
        let answer = router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::SEE_OTHER, "{host}");
        let set = answer.headers()[header::SET_COOKIE].to_str().unwrap();
        assert_eq!(set.ends_with("; SameSite=Strict; Secure"), is_secure, "{set}");
    }
}

#[tokio::test]
async fn a_cookie_that_another_host_of_the_domain_set_locks_no_person_out() {
    let router = at(&serving(&format!("{{ adminTokens: [{TOKEN}] }}")).await, LOOPBACK);
    let own = session_of(&router, TOKEN).await;
    for (cookies, expected) in [
        (format!("vmcp_console_9090=tossed; {own}"), StatusCode::OK),
        (format!("{own}; vmcp_console_9090="), StatusCode::OK),
        (format!("{}{own}", "vmcp_console_9090=x; ".repeat(4)), StatusCode::UNAUTHORIZED),
        ("vmcp_console_9090=tossed".to_owned(), StatusCode::UNAUTHORIZED),
    ] {
        let seen = send(&router, "GET", "/console/", &[("cookie", &*cookies)], "").await;
        assert_eq!(seen.status(), expected, "{cookies}");
    }
}

#[tokio::test]
async fn an_attempt_goes_on_beside_a_cookie_that_another_host_of_the_domain_set() {
    let sign_in = "{ issuerUrl: \"http://127.0.0.1:1\", clientId: x, viewers: [a], insecureAllowHttp: true, \
                   allowPrivateIPs: true, redirectUri: \"http://localhost:9090/console/oidc/callback\" }";
    let keys = "sessionKeys: [one key of both replicas]";
    let engine = serving(&format!("{{ console: oidc, {keys}, consoleSignIn: {sign_in} }}")).await;
    let router = at(&engine, LOOPBACK);
    let keys = SessionKeys::new(&engine.snapshot().config.server.session_keys, &[0; 32]);
    let (own, attempt) = keys.attempt(now() + 600, "tools?q=x");
    let tossed = format!("vmcp_console_9090_attempt=tossed; vmcp_console_9090_attempt={own}");
    let path = format!("/console/oidc/callback?state={}&error=access_denied", attempt.state);
    let returned = send(&router, "GET", &path, &[("cookie", &*tossed)], "").await;
    assert_eq!(returned.status(), StatusCode::UNAUTHORIZED, "the attempt is known, and was refused");
    let page = text(returned).await;
    assert!(page.contains("href=\"/console/oidc/start?next=tools%3Fq%3Dx\""), "{page}");
}
